// How measured curves become costs, and which model fits; the file is in link_model_json.cc.
#include "trireme/comm/collective/link_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace trireme::comm {
namespace {

double gap_seconds(const LinkCurves& link, size_t bytes) {
  const double message = link.message.seconds(bytes);
  return link.gap.empty() ? message : std::min(message, link.gap.seconds(bytes));
}

bool is_measured(const Curve& pass, size_t vector_bytes) {
  return !pass.empty() && vector_bytes >= pass.points().front().bytes;
}

// The share of these bytes in a pass over the vector.
double share_seconds(const Curve& pass, size_t bytes, size_t vector_bytes) {
  return static_cast<double>(bytes) / static_cast<double>(vector_bytes) * pass.seconds(vector_bytes);
}

// What a message of a vector costs a rank, at the two ends together: its share of a pass over the vector,
// where that was measured, and what a message costs whatever its size; else what messages of this size cost.
// Either may be the larger: a byte in the cache of another core can take longer than one in the cache that
// all share.
struct Ends {
  LinkModel model;
  size_t vector_bytes;

  double taken(size_t bytes) const {
    if (!is_measured(model.vectors.exchange, vector_bytes)) return model.inside.exchange.seconds(bytes);
    return any_message() + share_seconds(model.vectors.exchange, bytes, vector_bytes);
  }
  double added(size_t bytes) const {
    if (!is_measured(model.vectors.add, vector_bytes)) {
      return model.inside.exchange.seconds(bytes) + model.add.seconds(bytes);
    }
    return any_message() + share_seconds(model.vectors.add, bytes, vector_bytes);
  }
  // Times `taken`.
  double handed_on(size_t bytes) const {
    if (!is_measured(model.vectors.hand_on, vector_bytes)) return 1;
    const double seconds = any_message() + share_seconds(model.vectors.hand_on, bytes, vector_bytes);
    return seconds / std::max(taken(bytes), std::numeric_limits<double>::min());
  }
  // Adding what was taken before.
  double reduced(size_t bytes) const {
    if (!is_measured(model.vectors.reduce, vector_bytes)) return model.reduce.seconds(bytes);
    return model.reduce.seconds(0) + share_seconds(model.vectors.reduce, bytes, vector_bytes);
  }

 private:
  // No pass, so it does not go on growing or shrinking beyond what was measured.
  double any_message() const {
    const Curve& message = model.vectors.message;
    if (!is_measured(message, vector_bytes)) return model.inside.exchange.seconds(0);
    return message.seconds(std::min(vector_bytes, message.points().back().bytes));
  }
};

// Both ends are busy, the receiver so much later that the message takes what it took. Of many messages in a
// row one end, taken to be the receiver, is busy all the time.
Transfer inside_transfer(const Ends& ends, size_t bytes, bool handed_on) {
  const LinkCurves& link = ends.model.inside;
  const double gap = gap_seconds(link, bytes);
  double send = gap;
  double receive = gap;
  if (!link.exchange.empty()) {
    const double both = ends.taken(bytes);
    const double alone = link.exchange.seconds(bytes);
    receive = both * std::clamp(gap / alone, 0.5, 1.0);
    send = both - receive;
  }
  const double delay = std::max(0.0, link.message.seconds(bytes) - receive);
  if (handed_on) {
    send *= ends.handed_on(bytes);
    receive *= ends.handed_on(bytes);
  }
  return {.send_seconds = send, .delay_seconds = delay, .receive_seconds = receive};
}

// Between hosts the gap is that of the link; what the ranks do about a message is no more than inside. A
// single message may well take less than the gap: a link that is limited (a token bucket) lets it pass at
// once when it has been idle for a while, and makes up for it later.
Transfer across_transfer(const LinkCurves& inside, const LinkCurves& across, size_t bytes) {
  const double message = across.message.seconds(bytes);
  const double link = across.gap.empty() ? message : across.gap.seconds(bytes);
  const double busy = std::min({message, link, gap_seconds(inside, bytes)});
  return {
      .send_seconds = busy, .link_seconds = link, .delay_seconds = message - busy, .receive_seconds = busy};
}

}  // namespace

std::string_view name(MemoryKind kind) {
  return kind == MemoryKind::transport ? "transport" : "ordinary";
}

const Curve* timed_curve(const LinkModel& model, Collective collective, Algorithm algorithm) {
  const auto operations = model.timed.find(collective);
  if (operations == model.timed.end()) return nullptr;
  const auto curve = operations->second.find(algorithm);
  return curve == operations->second.end() ? nullptr : &curve->second;
}

const Preference* preference_for(const LinkModel& model, Collective collective, size_t bytes) {
  const auto found = model.preferred.find(collective);
  if (found == model.preferred.end()) return nullptr;
  const auto distance = [&](const Preference& preference) {
    return std::abs(std::log(static_cast<double>(preference.bytes + 1) / static_cast<double>(bytes + 1)));
  };
  const auto nearest = std::ranges::min_element(found->second, {}, distance);
  return nearest == found->second.end() ? nullptr : &*nearest;
}

Costs costs_of(const LinkModel& model, std::span<const int> hosts, size_t vector_bytes) {
  Costs costs;
  costs.ports = model.ports;
  costs.hosts.assign(hosts.begin(), hosts.end());
  costs.cores_per_host = model.cores;
  const Ends ends{model, vector_bytes};
  costs.reduce_seconds = [ends](size_t bytes) { return ends.reduced(bytes); };
  if (!model.add.empty()) {
    costs.add_seconds = [ends](size_t bytes) { return std::max(0.0, ends.added(bytes) - ends.taken(bytes)); };
  }
  const LinkCurves& across = model.across.message.empty() ? model.inside : model.across;
  costs.transfer = [ends, across, numbers = costs.hosts](int from, int to, size_t bytes, bool handed_on) {
    const bool same_host = numbers.empty() || numbers[from] == numbers[to];
    return same_host ? inside_transfer(ends, bytes, handed_on)
                     : across_transfer(ends.model.inside, across, bytes);
  };
  return costs;
}

const LinkModel* find_link_model(std::span<const LinkModel> models, std::string_view transport, int ranks,
                                 MemoryKind memory) {
  const LinkModel* found = nullptr;
  for (const LinkModel& model : models) {
    if (model.transport != transport || model.memory != memory) continue;
    if (found == nullptr || std::abs(model.ranks - ranks) < std::abs(found->ranks - ranks)) found = &model;
  }
  return found;
}

}  // namespace trireme::comm
