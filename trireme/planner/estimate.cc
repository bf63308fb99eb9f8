// See estimate.h. Of a pipeline of p stages and m microbatches, with t a stage's time for one, f and b its
// parts, and n a message to the next stage and back:
//
//   one stage       m t, after the forwards of the stages before it, and before their backwards
//   a round trip    1f1b begins a microbatch when the one p before it is back: ⌈m / p⌉ (Σ t + (p − 1) n)
//
//   one microbatch  passes all chunks there and back, with a message between any two of them
//   a way           between two stages has all their messages after one another
//
// All hold whatever else happens. Weights apart (zb_…) leave the backwards out of the first. The second is
// scaled by how many microbatches a schedule has under way, and for others than 1f1b orders choices only.
#include "trireme/planner/estimate.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "trireme/passes/cut.h"

namespace trireme::planner {

struct Estimator::Network {
  Mesh mesh;
  DeviceMap device_map;
  sim::CollectiveTimes times;
  // By stage.
  std::vector<int> data_class;            // of its sums over data; none where there are no replicas
  std::vector<std::vector<int>> devices;  // the classes that it runs on, ascending, as the cluster has them
  std::vector<double> memory_bytes;       // that the smallest of these has
  std::vector<Path> hops;                 // to the next

  Network(const Choice& choice, const Cluster& cluster)
      : mesh({{std::string(kPipeAxis), choice.pipe}, {"data", choice.data}, {"tensor", choice.tensor}}),
        device_map(mesh, cluster),
        times(device_map, sim::CollectiveModel::kClosedForms, {}) {
    const int in_stage = choice.data * choice.tensor;
    for (int s = 0; s < choice.pipe; ++s) {
      const int first = s * in_stage;
      if (choice.data > 1) data_class.push_back(times.group_class(first, mesh.axis("data")));
      if (s + 1 < choice.pipe) hops.push_back(device_map.path(first, first + in_stage));
      std::set<int> classes;
      memory_bytes.push_back(device_map.device(first).memory_bytes);
      for (int rank = first; rank < first + in_stage; ++rank) {
        const DeviceClass& device = device_map.device(rank);
        classes.insert(static_cast<int>(&device - cluster.devices.data()));
        memory_bytes.back() = std::min(memory_bytes.back(), device.memory_bytes);
      }
      devices.emplace_back(classes.begin(), classes.end());
    }
  }
  double over_data(int stage, CollectiveKind kind, double bytes) {
    return data_class.empty() ? 0 : times.seconds(data_class[stage], kind, bytes);
  }
  double message(int stage, double bytes) const {
    return hops[stage].alpha_seconds + bytes * hops[stage].beta_seconds_per_byte;
  }
};

// A run of units.
struct Estimator::Chunk {
  Pass forward = {}, backward = {}, weight = {};
  double update_seconds = 0;
  UnitCost::Weight weights;                        // the sum of those that no other unit can read
  std::map<std::string, UnitCost::Weight> single;  // by name: counted once on a stage, whoever reads them
  double kept_bytes = 0, working_bytes = 0, ahead_bytes = 0, back_bytes = 0;

  double seconds() const { return forward.seconds + backward.seconds + weight.seconds; }
  double least() const { return forward.least + backward.least + weight.least; }
  void add(const Pass& pass, Pass& to) const {
    to.seconds += pass.seconds;
    to.least += pass.least;
  }
  void add(const UnitCost& unit, bool alone) {
    add(unit.forward, forward);
    add(unit.backward, backward);
    add(unit.weight, weight);
    update_seconds += unit.update_seconds;
    kept_bytes += unit.kept_bytes;
    working_bytes = std::max(working_bytes, unit.working_bytes);
    ahead_bytes = unit.ahead_bytes;
    back_bytes = unit.back_bytes;
    for (const UnitCost::Weight& one : unit.weights) {
      if (alone)
        single.emplace(one.name, one);
      else
        weights += one;
    }
  }
};

Estimator::Network& Estimator::network(const Choice& choice) {
  std::shared_ptr<Network>& known = networks_[{choice.data, choice.tensor, choice.pipe}];
  if (!known) known = std::make_shared<Network>(choice, cluster_);
  return *known;
}

namespace {

bool is_v(const Choice& choice) {
  return choice.schedule == "zb_v";
}

// A stage's chunks are every pipe-th; of a V one on the way there and one on the way back.
int stage_of_chunk(const Choice& choice, int chunk) {
  return is_v(choice) && chunk >= choice.pipe ? 2 * choice.pipe - 1 - chunk : chunk % choice.pipe;
}

// What units take on the slower of two devices.
std::vector<UnitCost> slower(std::vector<UnitCost> a, const std::vector<UnitCost>& b) {
  const auto raise = [](double& to, double other) { to = std::max(to, other); };
  for (size_t u = 0; u < a.size(); ++u) {
    raise(a[u].forward.seconds, b[u].forward.seconds);
    raise(a[u].forward.least, b[u].forward.least);
    raise(a[u].backward.seconds, b[u].backward.seconds);
    raise(a[u].backward.least, b[u].backward.least);
    raise(a[u].weight.seconds, b[u].weight.seconds);
    raise(a[u].weight.least, b[u].weight.least);
    raise(a[u].update_seconds, b[u].update_seconds);
  }
  return a;
}

}  // namespace

const std::vector<size_t>& Estimator::begins_of(const Choice& choice, const StageCosts& stages) {
  const int chunks = choice.pipe * choice.chunks;
  const auto [entry, fresh] = begins_.try_emplace({choice.split(), choice.pipe, choice.chunks, is_v(choice)});
  if (fresh && chunks > 1) {
    std::vector<std::vector<double>> costs(chunks);
    for (int c = 0; c < chunks; ++c) {
      const std::vector<UnitCost>& units = *stages[stage_of_chunk(choice, c)];
      for (const int kind : subject_.kind)
        costs[c].push_back(units[kind].forward.seconds + units[kind].backward.seconds +
                           units[kind].weight.seconds);
    }
    entry->second = balanced_begins(costs);
  }
  return entry->second;
}

std::vector<Estimator::Chunk> Estimator::chunks_of(const Choice& choice, const StageCosts& stages,
                                                   const std::vector<size_t>& begins) const {
  std::vector<Chunk> chunks(choice.pipe * choice.chunks);
  std::vector<int> of_kind(subject_.small_units.size());
  for (const int kind : subject_.kind) ++of_kind[kind];
  size_t chunk = 0;
  for (size_t u = 0; u < subject_.kind.size(); ++u) {
    if (chunk < begins.size() && begins[chunk] == u) ++chunk;
    const std::vector<UnitCost>& units = *stages[stage_of_chunk(choice, static_cast<int>(chunk))];
    chunks[chunk].add(units[subject_.kind[u]], of_kind[subject_.kind[u]] == 1);
  }
  return chunks;
}

namespace {

// Microbatches of a chunk that stage s keeps at the same time, on average over its chunks.
double kept_at_once(const Choice& choice, int stage) {
  const double m = static_cast<double>(choice.microbatches), after = choice.pipe - stage;
  if (choice.pipe == 1) return 1;
  if (choice.schedule == "interleaved")
    return std::min(m, (2 * (after - 1) + (choice.chunks - 1) * choice.pipe + 1) / choice.chunks);
  if (choice.schedule == "zb_h2") return std::min(m, 2 * after - 1);
  if (choice.schedule == "zb_v") return std::min(m, static_cast<double>(choice.pipe));
  return std::min(m, after);
}

// Microbatches that the first stage has begun and not yet got back.
double under_way(const Choice& choice) {
  const double p = choice.pipe, v = choice.chunks;
  if (choice.schedule == "interleaved") return p + (p - 1) / v;
  if (choice.schedule == "zb_h2") return 2 * p - 1;
  return p;
}

}  // namespace

Estimate Estimator::of(const Choice& choice) {
  Network& links = network(choice);
  const std::vector<std::vector<UnitCost>>& on = costs_.of(choice.split()).on;
  std::map<std::vector<int>, std::vector<UnitCost>> mixed;
  StageCosts stages;
  for (const std::vector<int>& devices : links.devices) {
    const std::vector<UnitCost>* units = &on[devices[0]];
    if (devices.size() > 1) {
      const auto [entry, fresh] = mixed.try_emplace(devices, *units);
      if (fresh)
        for (const int device : devices) entry->second = slower(std::move(entry->second), on[device]);
      units = &entry->second;
    }
    stages.push_back(units);
  }
  const std::vector<size_t>& begins = begins_of(choice, stages);
  const std::vector<Chunk> chunks = chunks_of(choice, stages, begins);
  const double m = static_cast<double>(choice.microbatches), d = choice.data;
  const int p = choice.pipe;
  const bool parts = choice.sharing != "data";
  const bool each_time = choice.sharing == "zero2" || choice.sharing == "zero3";
  const bool gathers = choice.sharing == "zero3";
  const bool weights_apart = choice.schedule.starts_with("zb_");
  // Weights are cast before they are gathered.
  const double cast = static_cast<double>(size_of(subject_.precision)) / size_of(DType::f32);

  Estimate result;
  for (const size_t begin : begins) result.begins.push_back(subject_.units[begin]);
  double busiest = 0, ahead = 0, behind = 0, ahead_least = 0, behind_least = 0, around = 0, around_least = 0;
  double longest_update = 0, first_update_least = 0, messages = 0;
  for (int s = 0; s < p; ++s) {
    double seconds = 0, least = 0, update = 0, kept = 0, working = 0;
    UnitCost::Weight weights;
    std::map<std::string, UnitCost::Weight> single;
    for (int c = 0; c < choice.chunks; ++c) {
      const int number = is_v(choice) && c == 1 ? 2 * p - 1 - s : c * p + s;
      const Chunk& chunk = chunks[number];
      seconds += chunk.seconds();
      least += chunk.least();
      update += chunk.update_seconds;
      kept += chunk.kept_bytes;
      working = std::max(working, chunk.working_bytes);
      weights += chunk.weights;
      single.insert(chunk.single.begin(), chunk.single.end());
    }
    for (const auto& [name, weight] : single) weights += weight;
    const double parameters = weights.parameter_bytes, gradients = weights.gradient_bytes;
    if (s + 1 < p)
      messages += links.message(s, chunks[s].ahead_bytes) + links.message(s, chunks[s].back_bytes);
    if (parts) update /= d;
    // Sums over replicas: once a step in the update, or with each microbatch beside its work.
    const double scatter = links.over_data(s, CollectiveKind::kReduceScatter, gradients);
    const double gather = links.over_data(s, CollectiveKind::kAllGather, parameters);
    double once = 0, each = 0;
    if (each_time) {
      each = scatter + (gathers ? 2 * links.over_data(s, CollectiveKind::kAllGather, parameters * cast) : 0);
      once = gathers ? 0 : gather;
    } else {
      once = parts ? scatter + gather : links.over_data(s, CollectiveKind::kAllReduce, gradients);
    }
    double beside = 0;
    if (!each_time && !parts && p == 1 && m == 1) beside = std::exchange(once, 0);
    seconds = std::max(seconds, each + beside);
    // Of few rows the values that gradients are made from have fewer bytes than gradients, and are gathered
    // in their place; and not all weights are gathered again for gradients. So `each` is no bound.
    least = std::max(least, beside);
    const double update_least = std::max(update, once);

    const Chunk& first = chunks[s];
    result.least_seconds =
        std::max({result.least_seconds, ahead_least + m * least + (weights_apart ? 0 : behind_least),
                  ahead_least + m * least + update_least});
    busiest = std::max(busiest, seconds);
    ahead += first.forward.seconds;
    behind += first.backward.seconds;
    ahead_least += first.forward.least;
    behind_least += first.backward.least;
    around += seconds;
    around_least += least;
    longest_update = std::max(longest_update, update + once);
    if (s == 0) first_update_least = update_least;

    const double states = parameters / (gathers ? d : 1) + gradients / (each_time ? d : 1) +
                          weights.optimizer_bytes / (parts ? d : 1);
    const double bytes = states + kept * kept_at_once(choice, s) + working;
    if (bytes / links.memory_bytes[s] > result.fill()) {
      result.bytes = bytes;
      result.memory_bytes = links.memory_bytes[s];
    }
  }
  if (!weights_apart) {
    // All stages but the first are done before it.
    double longest = 0, before = 0;
    for (int s = 0; s < p; ++s) {
      double least = 0;
      for (int c = 0; c < choice.chunks; ++c) least += chunks[c * p + s].least();
      longest = std::max(longest, m * least + before);
      before += chunks[s].least();
    }
    result.least_seconds = std::max(result.least_seconds, longest + first_update_least);
  }
  if (p > 1 && choice.schedule == "1f1b") {
    // Microbatches 0, p, 2p, … go there and back one after another; then the first stage updates.
    const double trips = static_cast<double>((choice.microbatches + p - 1) / p);
    result.least_seconds =
        std::max(result.least_seconds, trips * (around_least + messages) + first_update_least);
  }
  // One microbatch by itself. Where a V turns, both chunks are of one stage; what goes from the last stage to
  // the first is left out.
  double path = first_update_least + chunks[0].weight.least, path_least = path;
  std::vector<double> there(p), back(p);  // what goes between a stage and the next, of a microbatch
  for (size_t c = 0; c < chunks.size(); ++c) {
    path += chunks[c].forward.seconds + chunks[c].backward.seconds;
    path_least += chunks[c].forward.least + chunks[c].backward.least;
    const int stage = stage_of_chunk(choice, static_cast<int>(c));
    const int next = c + 1 == chunks.size() ? stage : stage_of_chunk(choice, static_cast<int>(c) + 1);
    if (std::abs(next - stage) != 1) continue;
    const int between = std::min(stage, next);
    const double ahead_seconds = links.message(between, chunks[c].ahead_bytes);
    const double back_seconds = links.message(between, chunks[c].back_bytes);
    path += ahead_seconds + back_seconds;
    path_least += ahead_seconds + back_seconds;
    (stage < next ? there : back)[between] += ahead_seconds;
    (stage < next ? back : there)[between] += back_seconds;
  }
  // Messages of a pair go after one another.
  const double longest_way = m * std::max(std::ranges::max(there), std::ranges::max(back));
  result.least_seconds = std::max({result.least_seconds, path_least, longest_way});
  const double v = choice.chunks;
  const double trip = p > 1 ? (around + (v * p - 1) / (p - 1) * messages) / under_way(choice) : 0;
  // Gradients of weights fill what is empty, once there are microbatches for it.
  const double filled = choice.schedule == "zb_h1" ? 0.4 : 0.1;
  const double fill = weights_apart ? std::max(filled, 1 - (m - 1) / (2 * p - 1)) : 1;
  result.seconds = m * std::max(busiest, trip) +
                   (p > 1 ? fill * (p - 1.0) / p * (ahead + behind) + messages : 0) + longest_update;
  result.seconds = std::max({result.seconds, path, result.least_seconds});
  return result;
}

}  // namespace trireme::planner
