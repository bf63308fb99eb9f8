// Whether a plan computes what one rank computes.
#include "trireme/train/parity/verify.h"

#include <fmt/format.h>

#include "python/bindings.h"
#include "python/calling_thread.h"
#include "python/own_model.h"
#include "python/python_data.h"
#include "python/settings.h"
#include "trireme/data/loader.h"
#include "trireme/optim/lr_schedule.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/random_case.h"
#include "trireme/run/run_setup.h"

namespace trireme::python {
namespace {

// The first batches that training would see, of the settings' data or the program's own.
parity::Training training_of(const Settings& settings, const Plan& plan, int64_t steps, const OwnModel* own,
                             const DataHolder* data) {
  ResolvedConfig resolved = settings.resolve(own ? &own->record : nullptr);
  apply_plan(plan, resolved);
  const Config& config = resolved.config;
  const OpenedData opened = data ? data->open() : open_run_data(config, "");
  const ModelRecord record = own ? own->record : find_model(config.model);
  parity::Training training{
      Model(record, complete_model(record, config, opened)),        config.train, config.optim,
      {config.train.batch / config.train.accumulate, opened.input}, {},           {}};
  Loader loader(opened.train,
                {.batch = config.train.batch, .seed = static_cast<uint64_t>(config.train.seed)});
  for (int64_t step = 0; step < steps; ++step) {
    training.batches.push_back(loader.next());
    training.rates.push_back(
        learning_rate(config.optim, config.lr_schedule, config.train.batch, config.train.steps, step));
  }
  return training;
}

parity::Training random_training_of(const Settings& settings, const Plan& plan, int64_t steps) {
  const StepSubject step = step_subject(settings, nullptr, plan);
  return parity::random_training(step.config, step.shape.sample, steps);
}

parity::Result verify_plan(const Settings& settings, const Plan& plan, int64_t steps, const OwnModel* own,
                           const DataHolder* data, bool random) {
  if (steps < 1) throw_error("steps is {}; 1 or more expected", steps);
  if (own && !data)
    throw_error("verify() of a model of your own needs data=: a DataSet, or a dict of arrays");
  return run_interruptible([&](const std::atomic<bool>&) {
    parity::Reference reference(random ? random_training_of(settings, plan, steps)
                                       : training_of(settings, plan, steps, own, data));
    return parity::verify(reference, plan);
  });
}

std::string verdict_text(const parity::Result& result) {
  std::string text = fmt::format("{}", parity::name(result.verdict));
  if (!result.reason.empty()) text += ": " + result.reason;
  if (result.verdict == parity::Verdict::kRounding)
    text += fmt::format(": of {} tensors the worst is {}, off by {:.2g} of what rounding may do",
                        result.tensors, result.worst_tensor, result.worst);
  return text;
}

}  // namespace

void bind_verify(py::module_& module) {
  py::class_<parity::Result>(module, "Verdict", "Whether a plan computes what one rank computes.")
      .def_property_readonly(
          "verdict", [](const parity::Result& result) { return std::string(parity::name(result.verdict)); },
          "\"equal\", \"rounding\", \"bug\" or \"refused\".")
      .def_readonly("reason", &parity::Result::reason,
                    "Of a bug: the first tensor that is off. Of a refusal: why.")
      .def_property_readonly(
          "losses",
          [](const parity::Result& result) {
            std::vector<std::pair<double, double>> losses;
            for (const auto& step : result.losses) losses.emplace_back(step.plan, step.one_rank);
            return losses;
          },
          "Of each step: the plan's, and one rank's.")
      .def_readonly("tensors", &parity::Result::tensors, "That were compared.")
      .def_readonly("worst", &parity::Result::worst,
                    "The largest difference, as a share of what rounding may do.")
      .def_readonly("worst_tensor", &parity::Result::worst_tensor)
      .def("__repr__", &verdict_text);
  module.def("verify", &verify_plan, py::arg("config"), py::arg("plan"), py::arg("steps") = 3,
             py::arg("model") = nullptr, py::arg("data") = nullptr, py::arg("random") = false);
}

}  // namespace trireme::python
