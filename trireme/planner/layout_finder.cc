// See layout_finder.h. Batches that lie split along tensor are what hybrid_cnn brings, sums that are put
// together along the sequence what sequence does; all else of those presets the layouts say anew, for every
// parameter.
#include "trireme/planner/layout_finder.h"

#include <algorithm>
#include <cctype>

#include "trireme/base/text.h"
#include "trireme/passes/pins.h"

namespace trireme::planner {
namespace {

using Parameters = std::vector<std::pair<std::string, Placement>>;

// "h.*.attn.weight" of "h.3.attn.weight": blocks that are alike lie alike.
std::string pattern_of(const std::string& name) {
  std::vector<std::string> parts = split(name, '.');
  for (std::string& part : parts) {
    if (!part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c); }))
      part = "*";
  }
  return join(parts, ".");
}

Parameters of_preset(const Graph& graph, const Plan& plan, const Parameters& like) {
  const Pins pins = pins_of(plan, graph, SegmentKind::kForwardBackward, Microbatches::kOne);
  Parameters result;
  for (const auto& [name, placement] : like) result.emplace_back(name, pins.states.at(name).use[0]);
  return result;
}

// Whether matrices and filters lie alike. Vectors are too small to make another plan of one.
bool are_alike(const Parameters& a, const Parameters& b, const Graph& graph) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (graph.type(graph.find(a[i].first)).shape.rank() > 1 && a[i].second != b[i].second) return false;
  }
  return true;
}

}  // namespace

std::optional<TensorSplit> LayoutFinder::find(int ranks, AxisQuestion::Rows rows_of_ranks, int64_t rows,
                                              int64_t microbatches) {
  if (!subject_.graph) return std::nullopt;
  // What is best changes slowly with the rows, and where they are not dealt hardly with microbatches.
  constexpr int64_t kStep = 8;
  int64_t asked = 1;
  while (asked * kStep <= rows) asked *= kStep;
  if (rows_of_ranks == AxisQuestion::Rows::kSame) microbatches = 1;
  const auto [entry, is_new] = known_.try_emplace({ranks, rows_of_ranks, asked, microbatches});
  if (is_new)
    entry->second = found(
        {.ranks = ranks, .rows = rows_of_ranks, .microbatches = static_cast<double>(microbatches)}, asked);
  return entry->second;
}

std::optional<TensorSplit> LayoutFinder::found(const AxisQuestion& question, int64_t rows) const {
  const bool shared = question.rows == AxisQuestion::Rows::kShared;
  const Graph graph = subject_.graph(shared ? rows * question.ranks : rows);
  const Mesh mesh({{"tensor", question.ranks}});
  const DeviceMap device_map(mesh, cluster_);
  sim::CollectiveTimes times(device_map, sim::CollectiveModel::kClosedForms, {});
  const AxisLayouts best =
      best_layouts(graph, question, device_map.device(0), times, times.group_class(0, 0));
  const auto is_whole = [](const auto& entry) { return entry.second.kind == Placement::Kind::kReplicated; };
  if (std::ranges::all_of(best.parameters, is_whole)) return std::nullopt;

  TensorSplit split;
  const std::string with_sequence = "megatron+sequence";
  const bool knows_sequence =
      std::ranges::find(subject_.tensor_presets, with_sequence) != subject_.tensor_presets.end();
  if (shared)
    split.preset = "hybrid_cnn";
  else if (best.sequence == AxisLayouts::Sequence::kSplit && knows_sequence)
    split.preset = with_sequence;
  for (const std::string& preset : subject_.tensor_presets) {
    const bool same_base = preset == split.preset || (split.preset.empty() && preset == "megatron");
    if (same_base && are_alike(best.parameters,
                               of_preset(graph, {.mesh = mesh, .preset = preset}, best.parameters), graph))
      return std::nullopt;
  }
  const bool whole_model = subject_.units == subject_.small_units;
  for (const auto& [name, placement] : best.parameters) {
    const std::string pattern = whole_model ? name : pattern_of(name);
    const auto known = std::ranges::find(split.layouts, pattern, &LayoutTexts::value_type::first);
    const std::string text = to_string({placement}, mesh);
    if (known == split.layouts.end())
      split.layouts.emplace_back(pattern, text);
    else
      known->second = text;  // blocks that are alike: as the last of them
  }
  return split;
}

}  // namespace trireme::planner
