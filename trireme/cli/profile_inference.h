// `trireme profile --inference RUN`: a variant of a workflow.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trireme::cli {

struct InferenceFlags {
  std::string run;
  std::vector<std::string> workers;  // NAME or NAME=FACTOR
  std::vector<double> inputs;
  int tokens = 0, items = 100;
  long batches = 0;
};
void add_inference_flags(CLI::App& app, InferenceFlags& flags);

// As a [[op.variant]] of a workflow's file.
std::string profile_variant(const InferenceFlags& flags);

}  // namespace trireme::cli
