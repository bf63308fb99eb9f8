// train(): a whole run as `trireme train` makes it, with callbacks. The run has threads of its own; callbacks
// run where train() was called (calling_thread.h). Ranks that it starts are threads of this process, because
// copies of an interpreter would run the program once more; under a launcher it joins as every program does.
#include <fmt/format.h>

#include <set>

#include "python/bindings.h"
#include "python/calling_thread.h"
#include "python/own_model.h"
#include "python/python_data.h"
#include "python/settings.h"
#include "trireme/base/error.h"
#include "trireme/run/job.h"
#include "trireme/runtime/device.h"

namespace trireme::python {
namespace {

// Copies of what observers are told, for Python to keep.
struct StartOfRun {
  std::string folder, device;
  int64_t parameters, steps_done;
  Plan plan;
};

struct EndOfRun {
  std::string folder, end;
  int64_t steps;
  double loss;
};

// Functions of Python by the names of RunObserver's calls. One that returns True ends the run.
class Callbacks : public RunObserver {
 public:
  Callbacks(CallingThread& caller, const py::dict& functions) : caller_(caller), functions_(functions) {
    for (const auto& [name, function] : functions) given_.insert(name.cast<std::string>());
  }

  void note(const std::string& line) override { tell("noted", line); }
  void warn_here(const std::string& line) override { tell("noted", line); }
  void started(const RunStart& run) override {
    tell("started", StartOfRun{run.folder, run.device, run.parameters, run.steps_done, run.plan});
  }
  void stepped(const StepMetrics& step) override { tell("stepped", step); }
  void validated(const ValidationMetrics& validation) override { tell("validated", validation); }
  void saved(const std::string& checkpoint) override { tell("saved", checkpoint); }
  void sampled(int64_t /*step*/, const std::string& text) override { tell("sampled", text); }
  void ended(const RunResult& done) override {
    result = EndOfRun{done.folder, std::string(name(done.end)), done.steps, done.loss};
  }

  std::optional<EndOfRun> result;

 private:
  template <typename Event>
  void tell(const char* name, const Event& event) {
    if (!given_.contains(name)) return;  // without the GIL the dict is out of reach
    caller_.call([&] {
      const py::object answer = functions_[name](event);
      if (answer.is(py::bool_(true))) caller_.ask_to_stop();
    });
  }

  CallingThread& caller_;
  const py::dict& functions_;
  std::set<std::string, std::less<>> given_;
};

// Failures of data come out of the call that they ended, for as long as this lives.
class Listening {
 public:
  Listening(FailureKeeper& failures, CallingThread& caller) : failures_(failures) {
    failures.keep = [&caller](std::exception_ptr failure) { caller.keep(std::move(failure)); };
  }
  ~Listening() { failures_.keep = nullptr; }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  FailureKeeper& failures_;
};

// Threads share one GPU.
void check_gpus(const std::string& device, int ranks) {
  const bool starts = comm::detect(comm::process_variables(), {.ranks = ranks}).starts_ranks;
  if (!starts || ranks < 2 || device == "cpu" || cuda_device_count() < 2) return;
  throw_error(
      "ranks={} would be threads of this process on one GPU, and this machine has {}; start the program by "
      "mpirun or torchrun, one process for each GPU, and leave ranks= out",
      ranks, cuda_device_count());
}

py::object run_job(const Settings& settings, int ranks, const std::string& plan, const std::string& cluster,
                   const OwnModel* model, const DataHolder* data, const py::dict& functions) {
  CallingThread caller;
  Callbacks callbacks(caller, functions);
  const ResolvedConfig config = settings.resolve(model ? &model->record : nullptr);
  check_gpus(config.config.train.device, ranks);
  JobOptions job{.launch = {.ranks = ranks, .device_links = comm::DeviceLinks::in_memory},
                 .plan = plan,
                 .cluster = cluster,
                 .model = model ? &model->record : nullptr,
                 .stop = &caller.stop()};
  std::optional<Listening> listening;
  if (data) {
    listening.emplace(*data->failures, caller);
    job.open_data = [&](const Config&) { return data->open(); };
  }
  caller.run([&] { run_training(config, callbacks, job); });
  if (!callbacks.result) return py::none();
  return py::cast(*callbacks.result);
}

}  // namespace

void bind_train(py::module_& module) {
  py::class_<StartOfRun>(module, "RunStart", "What a run is made of, when all is in place.")
      .def_readonly("folder", &StartOfRun::folder)
      .def_readonly("device", &StartOfRun::device)
      .def_readonly("parameters", &StartOfRun::parameters, "Of the whole model.")
      .def_readonly("steps_done", &StartOfRun::steps_done, "By the run that this one resumes.")
      .def_readonly("plan", &StartOfRun::plan);
  py::class_<StepMetrics>(module, "StepMetrics", "A step, as metrics.jsonl has it.")
      .def_readonly("step", &StepMetrics::step, "From 1.")
      .def_readonly("loss", &StepMetrics::loss)
      .def_readonly("lr", &StepMetrics::lr)
      .def_readonly("grad_norm", &StepMetrics::grad_norm)
      .def_readonly("samples_per_second", &StepMetrics::samples_per_second, "Of language models: tokens.")
      .def_readonly("step_seconds", &StepMetrics::step_seconds)
      .def_readonly("comm_seconds", &StepMetrics::comm_seconds)
      .def_readonly("bytes_sent", &StepMetrics::bytes_sent)
      .def_readonly("peak_bytes", &StepMetrics::peak_bytes)
      .def_readonly("samples", &StepMetrics::samples, "Seen in the whole run.")
      .def_readonly("seconds", &StepMetrics::seconds, "Of the whole run.")
      .def("__repr__", [](const StepMetrics& step) {
        return fmt::format("StepMetrics(step={}, loss={:.6g}, lr={:.6g}, grad_norm={:.6g})", step.step,
                           step.loss, step.lr, step.grad_norm);
      });
  py::class_<ValidationMetrics>(module, "ValidationMetrics", "A validation, as metrics.jsonl has it.")
      .def_readonly("step", &ValidationMetrics::step)
      .def_readonly("loss", &ValidationMetrics::loss)
      .def_readonly("accuracy", &ValidationMetrics::accuracy)
      .def_readonly("targets", &ValidationMetrics::targets);
  py::class_<EndOfRun>(module, "Run", "A run that has ended.")
      .def_readonly("folder", &EndOfRun::folder)
      .def_readonly("steps", &EndOfRun::steps, "Done in all.")
      .def_readonly("loss", &EndOfRun::loss, "Of the last step.")
      .def_readonly("end", &EndOfRun::end, "\"finished\", \"stopped\", \"time_is_up\" or \"no_better\".")
      .def("__repr__", [](const EndOfRun& run) {
        return fmt::format("Run(folder='{}', steps={}, loss={:.6g}, end='{}')", run.folder, run.steps,
                           run.loss, run.end);
      });
  module.def("train", &run_job, py::arg("config"), py::arg("ranks"), py::arg("plan"), py::arg("cluster"),
             py::arg("model"), py::arg("data"), py::arg("functions"));
}

}  // namespace trireme::python
