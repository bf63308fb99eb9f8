// See step_flags.h.
#include "trireme/cli/step_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/base/text.h"
#include "trireme/plan/plan.h"

namespace trireme::cli {

void add_step_flags(CLI::App& app, bench::StepSource& source) {
  app.add_option("config", source.config_path, "a TOML file; without one, the defaults of `trireme train`");
  app.add_option("--preset", source.preset, fmt::format("one of {}", join(bench::preset_names(), ", ")));
  app.add_option("--image", source.image, "size of images, like 3x32x32");
}

CLI::Option* add_plan_flag(CLI::App& app, std::string& plan) {
  return app.add_option("--plan", plan, fmt::format("a JSON file, or {}", join(preset_plans(), ", ")));
}

}  // namespace trireme::cli
