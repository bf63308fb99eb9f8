// See clients.h.
#include "trireme/plan/clients.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme {
namespace {

// Calls body(client, its place) for each that is drawn, ascending, until it returns false. Each number in
// turn is taken with the probability that as many are still wanted of those left, so that exactly `drawn`
// are, every set of them equally likely.
template <typename Body>
void for_each_drawn(uint64_t seed, int64_t round, int64_t drawn, int64_t of, const Body& body) {
  const RngKey key{seed,
                   (stream_id("exchange.clients") >> 2) + static_cast<uint64_t>(round) * 0x9E3779B97F4A7C15u};
  int64_t place = 0;
  for (int64_t client = 0; place < drawn; ++client) {
    const auto left = static_cast<uint64_t>(of - client);
    const bool taken =
        uniform_integer(key, static_cast<uint64_t>(client), left) < static_cast<uint64_t>(drawn - place);
    if (taken && !body(client, place++)) return;
  }
}

}  // namespace

Clients::Clients(const Agreement& how, int64_t replicas)
    : replicas_(replicas), count_(replicas), drawn_(replicas) {
  if (how.way() != ExchangeKind::Of::kWeightedMeans) return;
  if (const int64_t said = how.settings().whole("clients"); said > 0) count_ = said;
  if (count_ < replicas)
    throw_error(
        "the exchange {} has clients = {} and the mesh data:{}; a rank that is never a client would do "
        "nothing. Use fewer ranks along data, or more clients",
        how.method(), count_, replicas);
  drawn_ = how.taking_part(count_);
  period_ = how.period();
  seed_ = static_cast<uint64_t>(how.settings().whole("seed"));
}

int64_t Clients::client_in(int64_t round, int64_t place) const {
  int64_t found = 0;
  for_each_drawn(seed_, round, drawn_, count_, [&](int64_t client, int64_t at) {
    found = client;
    return at < place;
  });
  return found;
}

std::optional<int64_t> Clients::place_of(int64_t round, int64_t client) const {
  std::optional<int64_t> found;
  for_each_drawn(seed_, round, drawn_, count_, [&](int64_t one, int64_t at) {
    if (one == client) found = at;
    return one < client;
  });
  return found;
}

std::optional<int64_t> Clients::trained(int64_t step, int64_t replica) const {
  const int64_t place = turn_of(step) * replicas_ + replica;
  if (place >= drawn_) return std::nullopt;
  return client_in(step / (period_ * turns()), place);
}

int64_t Clients::steps_before(int64_t step, int64_t client) const {
  const int64_t steps_of_round = period_ * turns(), round = step / steps_of_round;
  int64_t steps = 0;
  for (int64_t before = 0; before < round; ++before) steps += place_of(before, client) ? period_ : 0;
  const std::optional<int64_t> place = place_of(round, client);
  if (!place) return steps;
  const int64_t begin = round * steps_of_round + *place / replicas_ * period_;
  return steps + std::clamp<int64_t>(step - begin, 0, period_);
}

}  // namespace trireme
