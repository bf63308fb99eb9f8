// See servers.h.
#include "trireme/plan/servers.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

void check_rest_of_plan(const Plan& plan, const std::string& method) {
  for (const Axis& axis : plan.mesh.axes()) {
    if (axis.name != "data" && axis.size > 1)
      throw_error(
          "the plan has the exchange {} and an axis {} of {} ranks; a worker is one rank so far. Use a mesh "
          "with the axis data alone",
          method, axis.name, axis.size);
  }
  for (const char* preset : {"zero1", "zero2", "zero3"}) {
    if (plan.has(preset))
      throw_error(
          "the plan has the exchange {}, by which the server alone has the optimizer's states, and the "
          "preset {}, which splits them over all ranks. Use the preset data",
          method, preset);
  }
  if (!plan.layouts.empty())
    throw_error(
        "the plan has the exchange {}, by which workers send whole gradients, and layouts for {}; take one "
        "of them out",
        method, plan.layouts[0].first);
  if (plan.offload)
    throw_error(
        "the plan has the exchange {} and offload, which cuts the update into parts; the two do not go "
        "together yet. Take one of them out",
        method);
}

}  // namespace

std::optional<Servers> servers_of(const Plan& plan) {
  for (const ExchangeRule& rule : plan.exchange) {
    if (rule.method != "server" && rule.method != "async_server" && rule.method != "ssp") continue;
    const ExchangeSettings settings = checked_settings(rule);
    const int64_t count = settings.whole("servers");
    const int ranks = plan.mesh.ranks();
    if (count >= ranks)
      throw_error(
          "the exchange {} has servers = {} of {} ranks; at least one rank must be left to compute. Add "
          "ranks to the axis data of the mesh, '{}'",
          rule.method, count, ranks, to_string(plan.mesh));
    check_rest_of_plan(plan, rule.method);
    Servers servers{.count = static_cast<int>(count), .workers = ranks - static_cast<int>(count)};
    if (rule.method == "ssp") servers.staleness = settings.whole("staleness");
    if (rule.method == "async_server") {
      servers.updates = Servers::Updates::kArrivals;
      if (settings.whole("stale_rate") != 0) servers.rate = Servers::Rate::kByStaleness;
    }
    return servers;
  }
  return std::nullopt;
}

}  // namespace trireme
