// Settings as programs of Python hold them: where they come from. What they come to depends on the model that
// they are for, so they are resolved when they are used.
#pragma once

#include "python/bindings.h"
#include "trireme/plan/plan.h"
#include "trireme/run/config.h"
#include "trireme/train/step.h"

namespace trireme::python {

struct Settings {
  ConfigSources sources;

  // Throws Error; for a model of the program's own, if one is given.
  ResolvedConfig resolve(const ModelRecord* own = nullptr) const { return resolve_config(sources, own); }
};

// {"train.batch": 32, …} as a command line has it. Throws Error for values that no setting has.
std::vector<std::string> setting_arguments(const py::dict& settings);

// A training step without data: the settings and shapes, with what the plan says of them, and with usual
// values of what the data would say (vocabulary, classes, size of images).
struct StepSubject {
  Model model;
  Config config;
  StepShape shape;
};
StepSubject step_subject(const Settings& settings, const ModelRecord* own, const Plan& plan = {});

}  // namespace trireme::python
