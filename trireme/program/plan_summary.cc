// See plan_summary.h.
#include "trireme/program/plan_summary.h"

#include <algorithm>
#include <cctype>

#include "trireme/passes/stage.h"

namespace trireme {
namespace {

double whole_cost(const Graph& graph) {
  double cost = 0;
  for (const Node& node : graph.nodes) cost += weighed_cost(graph, node);
  return cost;
}

// Of a rank that goes by arrivals alone: none.
std::span<const Action> step_actions(const Program& program) {
  const ActionList* const list = program.find_list(When::step());
  return list ? std::span<const Action>(list->actions) : std::span<const Action>();
}

// Calls f(segment) for each run of one in a step.
template <typename F>
void for_each_run(const Program& program, const F& f) {
  for (const Action& action : step_actions(program)) {
    if (action.kind == Action::Kind::kRun) f(program.segments[program.segment(action.what)]);
  }
}

// Adds what the collectives of a segment send along each axis.
void add_sent(const Segment& segment, std::map<std::string, double>& along) {
  for (size_t n = 0; n < segment.graph.nodes.size(); ++n) {
    if (const double bytes = bytes_sent(segment, static_cast<int>(n)); bytes > 0)
      along[std::string(segment.graph.nodes[n].attrs.text("axis", ""))] += bytes;
  }
}

std::string axis_of_message(const Program& program, int peer) {
  const Mesh& mesh = program.mesh;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
    if (mesh.coordinate(program.rank, axis) != mesh.coordinate(peer, axis)) return mesh.axes()[axis].name;
  }
  return "";
}

// "h.3.attn.weight" -> "h.*.attn.weight"
std::string without_numbers(const std::string& name) {
  std::string result;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(name[i])) != 0;
    const bool begins_part = i == 0 || name[i - 1] == '.' || (!result.empty() && result.back() == '*');
    if (digit && begins_part) {
      if (result.empty() || result.back() != '*') result += '*';
    } else {
      result += name[i];
    }
  }
  return result;
}

// The first segment that is a phase of a chunk; null where the program has none.
const Segment* piece_of(const Program& program, int chunk, Phase phase) {
  const auto found = std::ranges::find_if(program.segments, [&](const Segment& segment) {
    return segment.kind == SegmentKind::kForwardBackward &&
           segment.graph.name.ends_with(piece_name("", chunk, phase));
  });
  return found == program.segments.end() ? nullptr : &*found;
}

StageSummary summary_of(const Program& program) {
  StageSummary result{.working = program.arena_bytes,
                      .comm = program.comm_bytes,
                      .inputs = program.input_bytes,
                      .peak = program.peak_bytes()};
  for (const State& state : program.states) {
    if (state.role == Role::kParameter) result.parameters += state.type.shape.elements();
  }
  for (const auto& [role, bytes] : state_bytes_by_role(program))
    result.bytes_by_role[std::string(role == Role::kNone ? "other" : name(role))] += bytes;
  if (!program.groups.empty()) result.bytes_by_role["staging"] = program.staging_bytes();
  result.in_files = program.file_bytes();
  for_each_run(program, [&](const Segment& segment) {
    result.work += whole_cost(segment.graph);
    result.sent_in_collectives += bytes_sent(segment);
    add_sent(segment, result.sent_along);
  });
  for (const Action& action : step_actions(program)) {
    if (action.kind != Action::Kind::kSend) continue;
    const auto bytes = static_cast<double>(program.find_state(action.what)->type.bytes());
    result.sent_in_messages += bytes;
    result.sent_along[axis_of_message(program, action.peer)] += bytes;
  }
  return result;
}

}  // namespace

std::vector<StageSummary> summarise(std::span<const Program> ranks, const Cut& cut) {
  std::vector<StageSummary> result;
  double work = 0;
  for (const Program& program : ranks) {
    result.push_back(summary_of(program));
    work += result.back().work / static_cast<double>(ranks.size());
  }
  for (StageSummary& stage : result) stage.work /= std::max(1e-300, work);
  if (cut.chunks == 1) return result;
  for (const std::string& unit : cut.units) {
    const int chunk = cut.chunk_of.at(unit);
    for (size_t s = 0; s < ranks.size(); ++s) {
      if (piece_of(ranks[s], chunk, Phase::kForward)) result[s].units.push_back(unit);
    }
  }
  return result;
}

std::vector<LyingAlike> parameters_of(std::span<const Program> ranks) {
  std::vector<LyingAlike> result;
  for (size_t number = 0; number < ranks.size(); ++number) {
    for (const State& state : ranks[number].states) {
      if (state.role != Role::kParameter) continue;
      LyingAlike one{without_numbers(state.name), state.part.whole, state.type.shape, {}, state.part.axes};
      auto known = std::ranges::find_if(result, [&](const LyingAlike& other) {
        return other.name == one.name && other.whole == one.whole && other.own == one.own &&
               other.axes == one.axes;
      });
      if (known == result.end()) known = result.insert(known, std::move(one));
      known->names.insert(state.name);
      known->programs.insert(static_cast<int>(number));
    }
  }
  return result;
}

std::vector<ChunkTimes> chunk_costs(std::span<const Program> ranks, const Pipeline& pipeline) {
  std::vector<ChunkTimes> result;
  for (int chunk = 0; chunk < pipeline.chunks; ++chunk) {
    const auto holder = std::ranges::find_if(pipeline.holds, [&](const std::vector<int>& chunks) {
      return std::ranges::find(chunks, chunk) != chunks.end();
    });
    const Program& program = ranks[holder - pipeline.holds.begin()];
    const auto cost = [&](Phase phase) {
      const Segment* const segment = piece_of(program, chunk, phase);
      return segment ? whole_cost(segment->graph) : 0.0;
    };
    // Where weights have no turns of their own, what a backward costs has theirs in it.
    result.push_back({.forward = cost(Phase::kForward),
                      .backward = cost(Phase::kBackward),
                      .weight = cost(Phase::kWeight)});
  }
  return result;
}

}  // namespace trireme
