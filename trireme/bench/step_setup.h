// A training step without data: the settings and shapes of a config, with what the data would have said
// (vocabulary, classes, size of images) filled in. For commands that look at a step or time it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/data/batch.h"
#include "trireme/plan/plan.h"
#include "trireme/run/config.h"
#include "trireme/run/options.h"
#include "trireme/train/step.h"

namespace trireme::bench {

struct StepSource {
  std::string config_path;            // "": the preset
  std::string preset;                 // one of preset_names(); "": the defaults of `trireme train`
  std::string image;                  // "3x32x32"; "": by the model
  std::vector<std::string> settings;  // of the command line
};

// "3x32x32"; throws Error for anything else.
Shape parse_image(const std::string& text);

struct StepSetup {
  std::string name;  // of the config file or preset; "defaults"
  Config config;     // vocab and classes are set
  StepShape shape;
  bool tokens = true;  // or images

  int64_t units_per_step() const;  // tokens, or samples
  std::string_view unit() const { return tokens ? "tokens" : "samples"; }
};

std::vector<std::string> preset_names();
// The preset of a benchmark where none is named: that of a small GPT, or "" where the settings (or the
// environment) name a family, which has defaults of its own.
std::string usual_preset(const std::vector<std::string>& settings);
// With what the plan says of settings (run/plan_settings.h). Throws Error as that does.
StepSetup set_up_step(const StepSource& source, const Plan& plan = {});
// Of settings in which the plan has had its say. `image` as in StepSource.
StepSetup set_up_step(Config config, std::string name, const std::string& image = "");

// One batch of random tokens or images with random targets; a function of the seed.
Batch random_batch(const StepSetup& setup, uint64_t seed);

}  // namespace trireme::bench
