// How measured curves become costs, and which model fits; the file is in link_model_json.cc.
#include "trireme/comm/collective/link_model.h"

#include <algorithm>
#include <cstdlib>

namespace trireme::comm {
namespace {

double gap_seconds(const LinkCurves& link, size_t bytes) {
  const double message = link.message.seconds(bytes);
  return link.gap.empty() ? message : std::min(message, link.gap.seconds(bytes));
}

// Both ends are busy for the gap, the receiver so much later that the message takes what it took.
Transfer inside_transfer(const LinkCurves& link, size_t bytes) {
  const double gap = gap_seconds(link, bytes);
  return {.send_seconds = gap, .delay_seconds = link.message.seconds(bytes) - gap, .receive_seconds = gap};
}

// Between hosts the gap is that of the link; what the ranks do about a message is no more than inside.
Transfer across_transfer(const LinkCurves& inside, const LinkCurves& across, size_t bytes) {
  const double link = gap_seconds(across, bytes);
  const double busy = std::min(link, gap_seconds(inside, bytes));
  return {.send_seconds = busy,
          .link_seconds = link,
          .delay_seconds = across.message.seconds(bytes) - busy,
          .receive_seconds = busy};
}

}  // namespace

Costs costs_of(const LinkModel& model, std::span<const int> hosts) {
  Costs costs;
  costs.ports = model.ports;
  costs.hosts.assign(hosts.begin(), hosts.end());
  costs.cores_per_host = model.cores;
  costs.reduce_seconds = [reduce = model.reduce](size_t bytes) { return reduce.seconds(bytes); };
  const LinkCurves& across = model.across.message.empty() ? model.inside : model.across;
  costs.transfer = [inside = model.inside, across, numbers = costs.hosts](int from, int to, size_t bytes) {
    const bool same_host = numbers.empty() || numbers[from] == numbers[to];
    return same_host ? inside_transfer(inside, bytes) : across_transfer(inside, across, bytes);
  };
  return costs;
}

const LinkModel* find_link_model(std::span<const LinkModel> models, std::string_view transport, int ranks) {
  const LinkModel* found = nullptr;
  for (const LinkModel& model : models) {
    if (model.transport != transport) continue;
    if (found == nullptr || std::abs(model.ranks - ranks) < std::abs(found->ranks - ranks)) found = &model;
  }
  return found;
}

}  // namespace trireme::comm
