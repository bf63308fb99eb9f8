// See simulated_bytes.h.
#include "trireme/run/simulated_bytes.h"

#include <cmath>

#include "trireme/mesh/cluster_file.h"
#include "trireme/plan/clients.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step_programs.h"

namespace trireme::parity {
namespace {

// In a step, on the average; a server answers each of its workers once.
double promised_bytes(const Program& program, const Plan& plan) {
  const Servers* const servers = plan.agreement.servers();
  double bytes = bytes_sent_in_step(program);
  if (plan.agreement.way() == ExchangeKind::Of::kWeightedMeans) {
    const Clients clients(plan.agreement, replicas_of(plan.mesh));
    const double idle = 1 - static_cast<double>(clients.turns_of(replica_of(plan.mesh, program.rank))) /
                                static_cast<double>(clients.turns());
    bytes -= idle * bytes_sent(program, program.list(When::step()));
  }
  if (!servers || !servers->serves(program.rank)) return bytes;
  for (const ActionList& list : program.lists) {
    const bool answers = list.actions.size() == 1 && list.actions[0].kind == Action::Kind::kSend;
    if (answers && !servers->serves(list.actions[0].peer)) bytes += bytes_sent(program, list);
  }
  return bytes;
}

}  // namespace

std::string simulated_bytes_problem(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                                    const StepShape& shape, const Plan& plan) {
  // Where nobody waits, how often ranks hear of each other follows from their times, not from their steps.
  if (plan.agreement.pace() == Agreement::Pace::kOwn) return "";
  const StepPrograms programs(model, train, optim, shape, plan);
  const Cluster cluster = with_hosts(read_cluster("a100"), (plan.mesh.ranks() + 7) / 8);
  const sim::SimReport report =
      sim::simulate(DeviceMap(plan.mesh, cluster), [&](int rank) { return programs.rank(rank, nullptr); },
                    {.ranks = sim::SimOptions::Ranks::kAll, .plan = plan});
  for (const sim::RankReport& rank : report.ranks) {
    const double promised = promised_bytes(programs.rank(rank.rank, nullptr), plan);
    if (std::abs(rank.time.bytes_sent - promised) <= 1e-9 * promised) continue;
    return fmt::format("rank {} sends {} bytes in a step by its program, and {} by the simulator", rank.rank,
                       promised, rank.time.bytes_sent);
  }
  return "";
}

}  // namespace trireme::parity
