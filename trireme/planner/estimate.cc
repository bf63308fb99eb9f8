// See estimate.h. A pipeline's time is that of its schedule's own turns with the times of chunks and messages
// (schedule_book.h). Bounds on it, of p stages and m microbatches:
//
//   the turns       in their order, with the least times and messages that do not wait for each other
//   one stage       m microbatches, after the forwards of the chunks before it
//   a way           between two stages has all their messages after one another
//   shared weights  the first stage's update waits for the gradients that others have of its weights
//
// What is summed over replicas once a step begins at the earliest with the backward part of the last
// microbatch.
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
  std::vector<int> tensor_class;          // likewise
  std::vector<std::vector<int>> devices;  // the classes that it runs on, ascending, as the cluster has them
  std::vector<double> memory_bytes;       // that the smallest of these has

  Network(const Choice& choice, const Cluster& cluster)
      : mesh({{std::string(kPipeAxis), choice.pipe}, {"data", choice.data}, {"tensor", choice.tensor}}),
        device_map(mesh, cluster),
        times(device_map, sim::CollectiveModel::kClosedForms, {}) {
    const int in_stage = choice.data * choice.tensor;
    for (int s = 0; s < choice.pipe; ++s) {
      const int first = s * in_stage;
      if (choice.data > 1) data_class.push_back(times.group_class(first, mesh.axis("data")));
      if (choice.tensor > 1) tensor_class.push_back(times.group_class(first, mesh.axis("tensor")));
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
  Path between(int from_stage, int to_stage) const {
    const int in_stage = mesh.ranks() / static_cast<int>(devices.size());
    return device_map.path(from_stage * in_stage, to_stage * in_stage);
  }
  double over_data(int stage, CollectiveKind kind, double bytes) {
    return data_class.empty() ? 0 : times.seconds(data_class[stage], kind, bytes);
  }
  double gathered_over_tensor(int stage, double bytes) {
    return tensor_class.empty() ? 0 : times.seconds(tensor_class[stage], CollectiveKind::kAllGather, bytes);
  }
};

// A run of units.
struct Estimator::Chunk {
  Pass forward = {}, backward = {}, weight = {};
  UnitCost::Weight weights;                        // the sum of those that no other unit can read
  std::map<std::string, UnitCost::Weight> single;  // by name: counted once on a stage, whoever reads them
  double kept_bytes = 0, kept_forward_bytes = 0, working_bytes = 0, ahead_bytes = 0, back_bytes = 0;
  double inner_bytes = 0;  // between its units: two of them may have kept the same value

  double seconds() const { return forward.seconds + backward.seconds + weight.seconds; }
  double least() const { return forward.least + backward.least + weight.least; }
  double least_kept_bytes() const { return std::max(0.0, kept_forward_bytes - inner_bytes); }
  void add(const UnitCost& unit, bool alone) {
    forward += unit.forward;
    backward += unit.backward;
    weight += unit.weight;
    kept_bytes += unit.kept_bytes;
    kept_forward_bytes += unit.kept_forward_bytes;
    working_bytes = std::max(working_bytes, unit.working_bytes);
    inner_bytes += ahead_bytes;
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

// What a stage does in a step, and what it has.
struct Estimator::Stage {
  double seconds = 0, least = 0;  // of a microbatch, all chunks together
  double forward_least = 0;       // of that, up to where the first gradient of a weight can be ready
  // Collectives over data of a microbatch: beside forward, backward, and the gradients of weights.
  double each_ahead = 0, each_back = 0, each_weight = 0;
  double update = 0;  // after all microbatches
  double once = 0;    // collectives over data of a step
  UnitCost::Weight weights;
  std::map<std::string, double> single;  // bytes of gradients that other stages may have too, by name
  double kept = 0, least_kept = 0, working = 0;
};

Estimator::Network& Estimator::network(const Choice& choice) {
  std::shared_ptr<Network>& known = networks_[{choice.data, choice.tensor, choice.pipe}];
  if (!known) known = std::make_shared<Network>(choice, cluster_);
  return *known;
}

const BookedSchedule& Estimator::schedule(const Choice& choice) {
  // One stage takes its microbatches one after another, whatever the schedule.
  return choice.pipe == 1 ? book_.of(one_chunk_schedule(WeightPhase::kNone).name, 1, 1, 1)
                          : book_.of(choice.schedule, choice.pipe, choice.microbatches, choice.chunks);
}

namespace {

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
    for (size_t w = 0; w < a[u].weights.size(); ++w)
      raise(a[u].weights[w].update_seconds, b[u].weights[w].update_seconds);
  }
  return a;
}

}  // namespace

const std::vector<size_t>& Estimator::begins_of(const Choice& choice, const StageCosts& stages) {
  const std::vector<int>& stage_of = schedule(choice).stage_of;
  const auto [entry, fresh] = begins_.try_emplace({choice.split(), choice.data, stage_of});
  if (fresh && stage_of.size() > 1) {
    std::vector<std::vector<double>> costs(stage_of.size());
    for (size_t c = 0; c < costs.size(); ++c) {
      const std::vector<UnitCost>& units = *stages[stage_of[c]];
      for (const int kind : subject_.kind)
        costs[c].push_back(units[kind].forward.seconds + units[kind].backward.seconds +
                           units[kind].weight.seconds);
    }
    entry->second = balanced_begins(costs);
  }
  return entry->second;
}

std::vector<Estimator::Chunk> Estimator::chunks_of(const Choice& choice, const StageCosts& stages,
                                                   const std::vector<size_t>& begins) {
  const std::vector<int>& stage_of = schedule(choice).stage_of;
  std::vector<Chunk> chunks(stage_of.size());
  std::vector<int> of_kind(subject_.small_units.size());
  for (const int kind : subject_.kind) ++of_kind[kind];
  size_t chunk = 0;
  for (size_t u = 0; u < subject_.kind.size(); ++u) {
    if (chunk < begins.size() && begins[chunk] == u) ++chunk;
    const std::vector<UnitCost>& units = *stages[stage_of[chunk]];
    chunks[chunk].add(units[subject_.kind[u]], of_kind[subject_.kind[u]] == 1);
  }
  return chunks;
}

// All stashes of a stage share memory: it is the moment that counts at which they take most.
void Estimator::add_kept(const Choice& choice, Stage& stage, const std::vector<LiveMoment>& moments,
                         const std::vector<int>& holds, const std::vector<Chunk>& chunks) {
  const bool apart = std::ranges::any_of(
      moments, [](const LiveMoment& moment) { return std::ranges::max(moment.before_weight) > 0; });
  for (const LiveMoment& moment : moments) {
    double kept = 0, least = 0;
    for (size_t c = 0; c < holds.size(); ++c) {
      const Chunk& chunk = chunks[holds[c]];
      const auto forward = static_cast<double>(moment.before_backward[c]),
                 backward = static_cast<double>(moment.before_weight[c]);
      // Of what came in parts the parts may be what is kept.
      const double came = choice.boundaries == Plan::Boundaries::kParts && holds[c] > 0
                              ? chunks[holds[c] - 1].ahead_bytes
                              : 0;
      least += forward * std::max(0.0, chunk.least_kept_bytes() - came);
      // What the backward part leaves for the gradients of weights takes the place of what it has read.
      kept += apart ? forward * chunk.kept_forward_bytes +
                          backward *
                              std::max(chunk.kept_forward_bytes, chunk.kept_bytes - chunk.kept_forward_bytes)
                    : forward * chunk.kept_bytes;
    }
    stage.kept = std::max(stage.kept, kept);
    stage.least_kept = std::max(stage.least_kept, least);
  }
}

// What a stage has of its chunks, and what it exchanges with its replicas: once a step, in the update, or
// with each microbatch beside its work. A single microbatch of zero1 and zero2 is scattered as it is made,
// and the weights are gathered as they are used.
std::vector<Estimator::Stage> Estimator::stages_of(const Choice& choice, const std::vector<Chunk>& chunks,
                                                   Network& links) {
  const BookedSchedule& booked = schedule(choice);
  const Sharing& sharing = sharing_of(choice);
  const bool weights_apart = choice.split().weights == WeightPhase::kApart;
  std::vector<Stage> stages(choice.pipe);
  for (int s = 0; s < choice.pipe; ++s) {
    Stage& stage = stages[s];
    std::map<std::string, UnitCost::Weight> single;
    for (size_t c = 0; c < booked.holds[s].size(); ++c) {
      const Chunk& chunk = chunks[booked.holds[s][c]];
      stage.seconds += chunk.seconds();
      stage.least += chunk.least();
      stage.forward_least += chunk.forward.least;
      if (choice.pipe == 1) {
        stage.kept += chunk.kept_bytes;
        stage.least_kept += chunk.least_kept_bytes();
      }
      stage.working = std::max(stage.working, chunk.working_bytes);
      stage.weights += chunk.weights;
      single.insert(chunk.single.begin(), chunk.single.end());
    }
    if (choice.pipe > 1) add_kept(choice, stage, booked.live[s], booked.holds[s], chunks);
    for (const auto& [name, weight] : single) {
      stage.weights += weight;
      stage.single[name] = weight.gradient_bytes / (sharing.gradients ? choice.data : 1);
    }
    stage.update = stage.weights.update_seconds / (sharing.states ? choice.data : 1);
    const UnitCost::Weight& weights = stage.weights;
    const double scatter = links.over_data(s, CollectiveKind::kReduceScatter, weights.gradient_bytes);
    const auto gather = [&](double bytes) { return links.over_data(s, CollectiveKind::kAllGather, bytes); };
    const bool one_microbatch = choice.pipe == 1 && choice.microbatches == 1;
    const auto all_reduce = [&] {
      return links.over_data(s, CollectiveKind::kAllReduce, weights.gradient_bytes);
    };
    if (sharing.parameters || (sharing.states && one_microbatch))
      stage.each_ahead = gather(weights.gathered_bytes);
    if (sharing.parameters) stage.each_back = stage.each_ahead;
    // Gradients of weights are scattered where they are made.
    if (sharing.gradients || (sharing.states && one_microbatch))
      (weights_apart ? stage.each_weight : stage.each_back) += scatter;
    if (!sharing.states) stage.once = all_reduce();
    if (sharing.states && !sharing.parameters && !one_microbatch)
      stage.once = gather(weights.parameter_bytes) + (sharing.gradients ? 0 : scatter);
  }
  return stages;
}

void Estimator::add_memory(const Choice& choice, const std::vector<Stage>& stages, const Network& links,
                           Estimate& result) const {
  const Sharing& sharing = sharing_of(choice);
  const double d = choice.data;
  for (int s = 0; s < choice.pipe; ++s) {
    const Stage& stage = stages[s];
    const UnitCost::Weight& weights = stage.weights;
    const double lasting = weights.parameter_bytes / (sharing.parameters ? d : 1) +
                           weights.optimizer_bytes / (sharing.states ? d : 1);
    // Of one microbatch on one stage gradients need not be states.
    const bool added_up = choice.pipe > 1 || choice.microbatches > 1;
    const bool scattered = sharing.gradients || (sharing.states && !added_up);
    const double gradients = weights.gradient_bytes / (scattered ? d : 1);
    const double gathered =
        sharing.states && !sharing.parameters && !added_up ? weights.parameter_bytes / d : 0;
    const double bytes = lasting + gathered + gradients + stage.kept + stage.working;
    const double least = lasting + (added_up ? gradients : 0) + stage.least_kept;
    if (bytes / links.memory_bytes[s] > result.fill()) {
      result.bytes = bytes;
      result.memory_bytes = links.memory_bytes[s];
    }
    if (least / links.memory_bytes[s] > result.least_fill()) {
      result.least_bytes = least;
      result.least_memory_bytes = links.memory_bytes[s];
    }
  }
}

Estimate Estimator::of(const Choice& choice) {
  Network& links = network(choice);
  const std::vector<std::vector<UnitCost>>& on = costs_.of(choice.split()).on;
  std::map<std::vector<int>, std::vector<UnitCost>> mixed;
  StageCosts costs;
  for (const std::vector<int>& devices : links.devices) {
    const std::vector<UnitCost>* units = &on[devices[0]];
    if (devices.size() > 1) {
      const auto [entry, fresh] = mixed.try_emplace(devices, *units);
      if (fresh)
        for (const int device : devices) entry->second = slower(std::move(entry->second), on[device]);
      units = &entry->second;
    }
    costs.push_back(units);
  }
  const std::vector<size_t>& begins = begins_of(choice, costs);
  const std::vector<Chunk> chunks = chunks_of(choice, costs, begins);
  const std::vector<Stage> stages = stages_of(choice, chunks, links);
  const BookedSchedule& booked = schedule(choice);
  const double m = static_cast<double>(choice.microbatches);
  const bool weights_apart = choice.split().weights == WeightPhase::kApart;

  Estimate result;
  for (const size_t begin : begins) result.begins.push_back(subject_.units[begin]);
  add_memory(choice, stages, links, result);

  // Chunks with what their stage does beside them, and the least that they take.
  std::vector<ChunkSeconds> turns(chunks.size()), least_turns(chunks.size());
  std::map<std::pair<int, int>, double> wires;  // between stages: seconds of messages of a microbatch
  for (size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const Stage& stage = stages[booked.stage_of[c]];
    const double of_stage = stage.seconds > 0 ? chunk.seconds() / stage.seconds : 1.0 / choice.chunks;
    turns[c] = {.forward = std::max(chunk.forward.seconds, of_stage * stage.each_ahead),
                .backward = std::max(chunk.backward.seconds, of_stage * stage.each_back),
                .weight = std::max(chunk.weight.seconds, of_stage * stage.each_weight)};
    least_turns[c] = {
        .forward = chunk.forward.least, .backward = chunk.backward.least, .weight = chunk.weight.least};
  }
  const bool own_parts = !choice.layouts.empty() || choice.split().row_parts() > 1;
  for (size_t c = 0; c + 1 < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const int from = booked.stage_of[c], to = booked.stage_of[c + 1];
    if (from == to) continue;
    const Path hop = links.between(from, to);
    // In parts, each rank sends its own, and what was sent as addends and as their sum is sent once.
    const bool in_parts = choice.boundaries == Plan::Boundaries::kParts;
    const double share = in_parts ? 1.0 / choice.tensor : 1;
    // Units by themselves hand on all whole; together, ranks with rows or layouts of their own may send
    // parts.
    const double least_share = (own_parts ? 1.0 / choice.tensor : share) / (in_parts ? 2 : 1);
    const auto send = [&](ChunkSeconds& turn, double part) {
      turn.ahead = part * chunk.ahead_bytes * hop.beta_seconds_per_byte;
      turn.back = part * chunk.back_bytes * hop.beta_seconds_per_byte;
      turn.latency = hop.alpha_seconds;
    };
    send(turns[c], share);
    send(least_turns[c], least_share);
    if (in_parts) {
      turns[c + 1].forward += links.gathered_over_tensor(to, chunk.ahead_bytes);
      turns[c].backward += links.gathered_over_tensor(from, chunk.back_bytes);
    }
    wires[{from, to}] += least_turns[c].ahead;
    wires[{to, from}] += least_turns[c].back;
  }
  // Beside the work of a single microbatch gradients are summed up as they come.
  const bool beside = choice.pipe == 1 && choice.microbatches == 1 && !sharing_of(choice).states;
  std::vector<double> updates, least_updates;
  for (const Stage& stage : stages) {
    updates.push_back(stage.update + (beside ? 0 : stage.once));
    least_updates.push_back(stage.update);
  }
  // Stages that have the same weight send each other its gradient before their updates.
  std::vector<double> to_first(stages.size(), -1);
  std::map<std::pair<int, int>, double> shared;  // between stages: seconds of such messages of a step
  for (int a = 0; a < choice.pipe; ++a) {
    for (int b = 0; b < choice.pipe; ++b) {
      double bytes = 0;
      for (const auto& [name, of_a] : stages[a].single) {
        if (a != b && stages[b].single.contains(name)) bytes += of_a;
      }
      if (bytes == 0) continue;
      const Path hop = links.between(a, b);
      shared[{a, b}] = bytes * hop.beta_seconds_per_byte;
      if (b == 0) to_first[a] = hop.alpha_seconds + shared[{a, b}];
    }
  }
  const std::vector<double> alone = updates;
  for (const auto& [between, seconds] : shared)
    updates[between.second] =
        std::max(updates[between.second], std::max(alone[between.first], alone[between.second]) + seconds);
  if (choice.pipe == 1) {
    const double step = m * (turns[0].forward + turns[0].backward + turns[0].weight);
    result.seconds = (beside ? std::max(step, stages[0].once) : step) + updates[0];
  } else {
    result.seconds = booked.seconds(choice.microbatches, turns, updates);
    result.least_seconds = booked.least_seconds(least_turns, least_updates, to_first);
  }
  double ahead = 0;  // the forwards of the stages before
  for (int s = 0; s < choice.pipe; ++s) {
    const Stage& stage = stages[s];
    const double work = m * stage.least;
    // Sums over replicas wait for the forward part of the last microbatch, and for all of those before it. Of
    // several chunks one may be done long before the others.
    const double until_sums = choice.chunks > 1 ? 0 : (m - 1) * stage.least + stage.forward_least;
    result.least_seconds =
        std::max({result.least_seconds, ahead + work + stage.update, ahead + until_sums + stage.once});
    if (!weights_apart && s > 0) {
      // The stages before it have still to do the backward part of the last microbatch.
      double behind = 0;
      for (int before = 0; before < s; ++before) behind += chunks[before].backward.least;
      result.least_seconds = std::max(result.least_seconds, ahead + work + behind + stages[0].update);
    }
    ahead += chunks[s].forward.least;
  }
  for (const auto& [between, seconds] : wires)
    result.least_seconds = std::max(result.least_seconds, m * seconds + shared[between]);
  result.seconds = std::max(result.seconds, result.least_seconds);
  return result;
}

}  // namespace trireme::planner
