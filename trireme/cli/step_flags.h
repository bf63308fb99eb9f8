// What several commands ask: which model, which plan, which cluster, which checkpoint, which text.
#pragma once

#include <string>

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"
#include "trireme/run/trained_model.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trireme::cli {

// The config, --preset and --image. `source` outlives the parsing.
void add_step_flags(CLI::App& app, bench::StepSource& source);
// --plan, with the presets that may stand there. `plan` outlives the parsing.
CLI::Option* add_plan_flag(CLI::App& app, std::string& plan);

// --cluster, which must be given, and --hosts.
struct ClusterFlags {
  std::string cluster;
  int hosts = 0;  // 0: as many as the cluster has

  Cluster read() const;
};
void add_cluster_flags(CLI::App& app, ClusterFlags& flags);

// --checkpoint STEP|best, of the commands that use a trained model. `choice` outlives the parsing.
void add_checkpoint_flag(CLI::App& app, CheckpointChoice& choice);
// That, and --ema.
void add_weights_flags(CLI::App& app, WeightsChoice& choice);

// The text that is learned when no data is named: the repository that this program was built from; "" when
// that is gone.
std::string default_text();
std::string default_text(const std::string& source);  // when that was its folder

}  // namespace trireme::cli
