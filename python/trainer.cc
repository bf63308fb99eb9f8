// Trainer: one step after another from Python, and what lies between them. And Context: this process's place
// among ranks that a launcher started.
#include "trireme/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "python/arrays.h"
#include "python/own_model.h"
#include "python/settings.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/context.h"
#include "trireme/run/run_setup.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/tensor_access.h"

namespace trireme::python {
namespace {

using ContextPointer = std::shared_ptr<comm::Context>;

ContextPointer join_ranks(double timeout_seconds) {
  const comm::LaunchOptions options{.timeout_seconds = timeout_seconds};
  return std::make_shared<comm::Context>(
      comm::join(comm::detect(comm::process_variables(), options), options));
}

class PythonTrainer {
 public:
  PythonTrainer(const Model& model, const Config& config, const Shape& sample, const Plan& plan,
                ContextPointer context)
      : context_(std::move(context)), config_(config), batch_tensors_(batch_tensors(model.record, sample)) {
    const int ranks_here =
        context_
            ? static_cast<int>(std::ranges::count(context_->hosts(), context_->hosts()[context_->rank()]))
            : 1;
    device_ = make_device({.kind = config.train.device,
                           .threads = thread_count(config.train, ranks_here),
                           .rank_here = context_ ? context_->rank_here() : 0,
                           .f32_products = f32_products_of(config.train)});
    ranks_.plan = plan;
    if (context_ && context_->ranks() > 1) {
      communicator_.emplace(plan.mesh, *context_, axis_algorithms(plan, config.train));
      ranks_ = {plan, context_->rank(), &*communicator_};
    }
    const int64_t rows = config.train.batch / config.train.accumulate;
    trainer_.emplace(model, config.train, config.optim, StepShape{rows, sample}, *device_, ranks_);
    trainer_->initialise(static_cast<uint64_t>(config.train.seed));
    rate = config.optim.lr;
  }

  double rate;        // of the steps to come
  int64_t steps = 0;  // done

  void forward_backward(const py::dict& arrays) {
    Batch& batch = fill(batch_, arrays, config_.train.batch);
    const py::gil_scoped_release release;
    trainer_->forward_backward(batch, steps);
  }
  StepResult update() {
    const py::gil_scoped_release release;
    const StepResult done = trainer_->update(steps, rate);
    ++steps;  // not where it throws: then nothing has changed
    return done;
  }
  StepResult step(const py::dict& arrays) {
    Batch& batch = fill(batch_, arrays, config_.train.batch);
    const py::gil_scoped_release release;
    const StepResult done = trainer_->step(batch, steps, rate);
    ++steps;
    return done;
  }
  Evaluation evaluate(const py::dict& arrays) {
    Batch& batch = fill(evaluated_, arrays, config_.train.batch / config_.train.accumulate);
    const py::gil_scoped_release release;
    Evaluation result;
    trainer_->evaluate(batch, result);
    return result;
  }

  const State& state(const std::string& name) const {
    if (const State* found = trainer_->program().find_state(name)) return *found;
    const std::string guess = nearest(name, state_names());
    throw_error("the model has no tensor '{}'{}", name,
                guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
  }
  std::vector<std::string> state_names() const {
    std::vector<std::string> names;
    for (const State& one : trainer_->program().states) names.push_back(one.name);
    return names;
  }
  Trainer& trainer() { return *trainer_; }
  bool in_host_memory(const State& one) const {
    return device_->memory() == Device::Memory::kOfHost && one.group < 0;
  }

  std::string save_to(const std::string& folder) {
    const py::gil_scoped_release release;
    Checkpoints checkpoints(folder, 1, checkpoint_peers(ranks_));
    return save(checkpoints, {.step = steps, .seed = static_cast<uint64_t>(config_.train.seed)}, *trainer_,
                ranks_);
  }
  void load_from(const std::string& folder) {
    const py::gil_scoped_release release;
    const std::optional<LoadedCheckpoint> saved =
        Checkpoints(folder, 1, checkpoint_peers(ranks_)).load_latest();
    if (!saved) throw_error("{} has no checkpoint; Trainer.save() writes one", folder);
    restore(*trainer_, *saved);
    steps = saved->state.step;
  }

 private:
  Batch& fill(Batch& batch, const py::dict& arrays, int64_t rows) const {
    if (batch.tensors.empty()) {
      for (const SampleTensor& tensor : batch_tensors_) {
        Shape shape{rows};
        for (const int64_t extent : tensor.row) shape.push_back(extent);
        batch.tensors.emplace_back(tensor.name, HostTensor()).second.reset(tensor.dtype, shape);
      }
      batch.rows = rows;
    }
    std::vector<std::string> names;
    for (auto& [name, tensor] : batch.tensors) {
      if (!arrays.contains(name)) throw_error("the batch has no '{}'", name);
      copy_array(arrays[py::str(name)], name, tensor);
      names.push_back(name);
    }
    for (const auto& [key, value] : arrays) {
      const std::string name = py::str(key);
      if (std::ranges::find(names, name) == names.end())
        throw_error("the batch has '{}', and the model takes {}", name, join(names, " and "));
    }
    return batch;
  }

  ContextPointer context_;
  Config config_;
  std::vector<SampleTensor> batch_tensors_;
  std::unique_ptr<Device> device_;
  std::optional<MeshCommunicator> communicator_;
  RankOptions ranks_;
  std::optional<Trainer> trainer_;
  Batch batch_, evaluated_;
};

using TrainerPointer = std::shared_ptr<PythonTrainer>;

// Where the memory is the host's: as it lies there, for as long as somebody looks at it.
Tensor view_of_state(const TrainerPointer& self, const std::string& name) {
  const State& state = self->state(name);
  Executor& executor = self->trainer().executor();
  executor.synchronize();
  if (self->in_host_memory(state))
    return {self, {executor.slot_memory(state, 0), state.type.dtype, state.type.shape}};
  const auto owner = std::make_shared<std::vector<std::byte>>(state.type.bytes());
  executor.read_state(name, owner->data(), owner->size());
  return {owner, {owner->data(), state.type.dtype, state.type.shape}};
}

TrainerPointer make_trainer(const OwnModel* own, const Settings& settings, const std::string& plan_text,
                            const ContextPointer& context) {
  const Plan plan = plan_text.empty() && !context
                        ? Plan()
                        : read_plan(plan_text.empty() ? "data" : plan_text, context ? context->ranks() : 1);
  const StepSubject step = step_subject(settings, own ? &own->record : nullptr, plan);
  const py::gil_scoped_release release;
  return std::make_shared<PythonTrainer>(step.model, step.config, step.shape.sample, plan, context);
}

}  // namespace

void bind_trainer(py::module_& module) {
  py::class_<comm::Context, ContextPointer>(module, "Context",
                                            "This process's place among the ranks of a job.")
      .def_property_readonly("rank", &comm::Context::rank)
      .def_property_readonly("ranks", &comm::Context::ranks)
      .def(
          "barrier",
          [](comm::Context& context) {
            const py::gil_scoped_release release;
            context.world().barrier().wait();
          },
          "Returns when all ranks have come.")
      .def("__repr__", &comm::Context::summary);
  module.def("join", &join_ranks, py::call_guard<py::gil_scoped_release>(),
             py::arg("timeout_seconds") = 120.0);

  py::class_<StepResult>(module, "StepResult", "What came of a step.")
      .def_readonly("loss", &StepResult::loss, "The mean over targets.")
      .def_readonly("norm", &StepResult::norm, "Of the gradient, before clipping.")
      .def_readonly("skipped", &StepResult::skipped, "The gradient was not finite, and nothing changed.")
      .def("__repr__", [](const StepResult& done) {
        return fmt::format("StepResult(loss={:.6g}, norm={:.6g}{})", done.loss, done.norm,
                           done.skipped ? ", skipped" : "");
      });
  py::class_<Evaluation>(module, "Evaluation", "What a batch was computed to, without training on it.")
      .def_readonly("loss", &Evaluation::loss, "The mean over targets.")
      .def_readonly("count", &Evaluation::count, "Targets.")
      .def_readonly("correct", &Evaluation::correct,
                    "Of a model with logits: targets that had the largest logit.")
      .def("__repr__", [](const Evaluation& result) {
        return fmt::format("Evaluation(loss={:.6g}, count={}, correct={})", result.loss, result.count,
                           result.correct);
      });

  py::class_<PythonTrainer, TrainerPointer>(module, "_Trainer")
      .def(py::init(&make_trainer), py::arg("model"), py::arg("config"), py::arg("plan"), py::arg("context"))
      .def("step", &PythonTrainer::step)
      .def("forward_backward", &PythonTrainer::forward_backward)
      .def("update", &PythonTrainer::update)
      .def("evaluate", &PythonTrainer::evaluate)
      .def_readwrite("rate", &PythonTrainer::rate)
      .def_readonly("steps", &PythonTrainer::steps)
      .def_property(
          "loss_scale", [](PythonTrainer& self) { return self.trainer().loss_scale; },
          [](PythonTrainer& self, double scale) { self.trainer().loss_scale = scale; })
      .def_property_readonly("parameters",
                             [](PythonTrainer& self) { return parameter_names(self.trainer()); })
      .def_property_readonly("states", &PythonTrainer::state_names)
      .def_property_readonly("parameter_count",
                             [](PythonTrainer& self) { return self.trainer().parameter_count(); })
      .def_property_readonly("program", [](PythonTrainer& self) { return self.trainer().program(); })
      .def("state", &view_of_state)
      .def("set_state",
           [](PythonTrainer& self, const std::string& name, const py::object& array) {
             HostTensor values;
             values.reset(DType::f32, self.state(name).type.shape);
             copy_array(array, name, values);
             write_tensor(self.trainer(), name, values.values<float>());
           })
      .def("gradient",
           [](PythonTrainer& self, const std::string& name) {
             const Shape& shape = self.state(name).type.shape;
             const py::gil_scoped_release release;
             return own_tensor(read_gradient(self.trainer(), name), shape);
           })
      .def("save", &PythonTrainer::save_to)
      .def("load", &PythonTrainer::load_from);
}

}  // namespace trireme::python
