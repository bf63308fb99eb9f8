// See step_setup.h. Presets stand in the place of the config file, so the environment and the command line
// change them as they change a file.
#include "trireme/bench/step_setup.h"

#include <algorithm>
#include <cstdlib>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/models/model.h"
#include "trireme/models/random_batch.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/run_setup.h"

namespace trireme::bench {
namespace {

struct Preset {
  std::string_view name;
  std::string_view toml;
};

constexpr Preset kPresets[] = {
    {"gpt", R"(
[model]
family = "gpt"
layers = 6
heads = 6
hidden = 384
vocab = 256
seq = 256
[train]
batch = 8
)"},
    {"resnet20", R"(
[model]
family = "resnet"
layers = 20
classes = 10
[train]
batch = 64
[optim]
kind = "momentum"
lr = 0.1
weight_decay = 0.0001
)"},
};

ConfigFile preset_file(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return {"preset " + name, std::string(preset.toml)};
  }
  const std::string guess = nearest(name, preset_names());
  throw_error("there is no preset '{}'{}; there are {}", name,
              guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess), join(preset_names(), ", "));
}

}  // namespace

Shape parse_image(const std::string& text) {
  Shape shape;
  for (const std::string& part : split(text, 'x')) {
    const bool digits = !part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == part.npos;
    if (!digits || shape.rank() == 3 || std::stoll(part) < 1)
      throw_error("--image is '{}'; expected CHANNELSxHEIGHTxWIDTH, like 3x32x32", text);
    shape.push_back(std::stoll(part));
  }
  if (shape.rank() != 3) throw_error("--image is '{}'; expected CHANNELSxHEIGHTxWIDTH, like 3x32x32", text);
  return shape;
}

namespace {

ResolvedConfig resolve_step(const StepSource& source) {
  ConfigSources sources;
  if (!source.config_path.empty()) {
    sources.file = read_config_file(source.config_path);
  } else if (!source.preset.empty()) {
    sources.file = preset_file(source.preset);
  }
  sources.environment = process_environment();
  // Image models ask for a path, and no data is read here; a path of the user's comes later and wins.
  sources.command_line = {"data.path=none"};
  sources.command_line.insert(sources.command_line.end(), source.settings.begin(), source.settings.end());
  return resolve_config(sources);
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::string usual_preset(const std::vector<std::string>& settings) {
  const auto names_family = [](std::string_view setting) {
    while (setting.starts_with('-')) setting.remove_prefix(1);
    return setting.substr(0, setting.find('=')) == "model.family";
  };
  const bool given = std::ranges::any_of(settings, names_family) || std::getenv("TRIREME_MODEL__FAMILY");
  return given ? "" : "gpt";
}

int64_t StepSetup::units_per_step() const {
  return tokens ? config.train.batch * tokens_of(shape.sample) : config.train.batch;
}

StepSetup set_up_step(const StepSource& source, const Plan& plan) {
  const std::string& file = source.config_path;
  ResolvedConfig config = resolve_step(source);
  apply_plan(plan, config);
  return set_up_step(std::move(config.config),
                     !file.empty()            ? file
                     : !source.preset.empty() ? "preset " + source.preset
                                              : "defaults",
                     source.image);
}

StepSetup set_up_step(Config config, std::string name, const std::string& image) {
  StepSetup setup;
  setup.name = std::move(name);
  setup.config = std::move(config);
  ModelOptions& model = setup.config.model;
  const ModelRecord record = find_model(model);
  setup.tokens = reads_text(record);
  model = assumed_model(record, std::move(model));
  setup.shape.rows = setup.config.train.batch / setup.config.train.accumulate;
  setup.shape.sample = setup.tokens || image.empty() ? record.usual_sample(model) : parse_image(image);
  return setup;
}

Batch random_batch(const StepSetup& setup, uint64_t seed) {
  return trireme::random_batch(setup.config.model, setup.shape.sample, setup.config.train.batch, seed);
}

}  // namespace trireme::bench
