// What every command asks that looks at a step without data: which model, which plan, which cluster.
#pragma once

#include <string>

#include "trireme/bench/step_setup.h"
#include "trireme/mesh/cluster.h"

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

}  // namespace trireme::cli
