// See choice.h.
#include "trireme/planner/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/planner/layout_finder.h"
#include "trireme/schedule/pipeline_table.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kSharings[] = {"data", "zero1", "zero2", "zero3"};
constexpr Recompute::Kind kRecomputes[] = {Recompute::Kind::kNone, Recompute::Kind::kSelective,
                                           Recompute::Kind::kFull};
// gpipe takes 1f1b's time and more memory; chimera holds all weights twice; asynchronous ones compute
// something else.
constexpr std::string_view kPipelines[] = {"1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v"};
constexpr int kMostChunks = 6;                // of a stage
constexpr int64_t kMostRows = 1024;           // of a microbatch on one rank
constexpr int64_t kMostMicrobatches = 65536;  // what train.accumulate may be
constexpr int64_t kMostTurns = 2048;  // microbatches times chunks of a stage: what a schedule is written for

std::string_view name(Recompute::Kind kind) {
  return kind == Recompute::Kind::kNone ? "none" : kind == Recompute::Kind::kFull ? "full" : "selective";
}

std::string tensor_words(const Choice& choice) {
  if (choice.layouts.empty()) return choice.tensor_preset;
  return choice.tensor_preset.empty() ? "layouts" : choice.tensor_preset + " with layouts";
}

std::map<std::string, std::string, std::less<>> words_of(const Choice& choice) {
  return {{"data", std::to_string(choice.data)},
          {"tensor", std::to_string(choice.tensor)},
          {"pipe", std::to_string(choice.pipe)},
          {"rows", std::to_string(choice.rows)},
          {"microbatches", std::to_string(choice.microbatches)},
          {"chunks", std::to_string(choice.chunks)},
          {"sharing", choice.sharing},
          {"tensor_preset", choice.layouts.empty() ? choice.tensor_preset : "layouts"},
          {"schedule", choice.schedule},
          {"recompute", std::string(name(choice.recompute))}};
}

struct Space {
  const Subject& subject;
  LayoutFinder layouts;
  std::vector<Choice> found = {};

  void add_pipelines(Choice choice) {
    if (choice.pipe == 1) {
      found.push_back(choice);
      return;
    }
    for (const std::string_view schedule : kPipelines) {
      choice.schedule = schedule;
      const PipelineSchedule& known = find_schedule(schedule);
      const int most = std::min(kMostChunks, known.needs.most_chunks);
      for (choice.chunks = known.needs.least_chunks; choice.chunks <= most; ++choice.chunks) {
        if (choice.pipe * choice.chunks > std::ssize(subject.units)) break;
        if (choice.microbatches * choice.chunks > kMostTurns) break;
        if (refusal(known, {choice.pipe, choice.microbatches, choice.chunks}).empty())
          found.push_back(choice);
      }
    }
  }

  // What is done along the axis tensor: what a choice's preset says, or what is found over it.
  enum class Tensor { kPreset, kFound };

  void add_microbatches(Choice choice, Tensor tensor = Tensor::kPreset) {
    const std::string given = choice.tensor_preset;
    const int64_t own = subject.batch / choice.row_parts();
    if (own == 0 || subject.batch % choice.row_parts() != 0) return;
    for (choice.rows = 1; choice.rows <= std::min(own, kMostRows); choice.rows *= 2) {
      if (own % choice.rows != 0) break;
      choice.microbatches = own / choice.rows;
      if (choice.microbatches > kMostMicrobatches) continue;
      if (tensor == Tensor::kFound) {
        const AxisQuestion::Rows rows =
            given.empty() ? AxisQuestion::Rows::kSame : AxisQuestion::Rows::kShared;
        const std::optional<TensorSplit> split =
            layouts.find(choice.tensor, rows, choice.rows, choice.microbatches);
        if (!split) continue;
        choice.tensor_preset = split->preset;
        choice.layouts = split->layouts;
      }
      for (const Recompute::Kind recompute : kRecomputes) {
        choice.recompute = recompute;
        for (const std::string_view sharing : kSharings) {
          if (sharing != "data" && choice.data == 1) break;
          choice.sharing = sharing;
          add_pipelines(choice);
        }
      }
    }
  }
};

}  // namespace

int64_t Choice::row_parts() const {
  return data * split().row_parts();
}

Split Choice::split() const {
  const bool apart = schedule.starts_with("zb_");
  return {tensor, tensor_preset, layouts, rows, recompute, apart ? WeightPhase::kApart : WeightPhase::kNone};
}

std::string to_string(const Choice& choice) {
  std::string text = fmt::format("data {}, tensor {}, pipe {}", choice.data, choice.tensor, choice.pipe);
  if (choice.pipe > 1) {
    text += fmt::format(" ({}", choice.schedule);
    if (choice.chunks > 1) text += fmt::format(", {} chunks a stage", choice.chunks);
    if (choice.boundaries == Plan::Boundaries::kParts) text += ", boundaries in parts";
    text += ")";
  }
  if (choice.data > 1) text += ", " + choice.sharing;
  if (choice.tensor > 1) text += ", " + tensor_words(choice);
  text += fmt::format(", {} microbatch{} of {} rows a rank, recompute {}", choice.microbatches,
                      choice.microbatches == 1 ? "" : "es", choice.rows, name(choice.recompute));
  if (choice.offload == Choice::Offload::kNothing) return text;
  return text + (choice.offload == Choice::Offload::kOptimizer ? ", the optimizer's states offloaded"
                                                               : ", all states offloaded");
}

Plan plan_of(const Choice& choice, const std::vector<std::string>& begins) {
  std::vector<Axis> axes;
  if (choice.pipe > 1) axes.push_back({std::string(kPipeAxis), choice.pipe});
  if (choice.data > 1) axes.push_back({"data", choice.data});
  if (choice.tensor > 1) axes.push_back({"tensor", choice.tensor});
  Plan plan{.mesh = Mesh(std::move(axes))};
  std::vector<std::string> presets;
  if (!choice.tensor_preset.empty()) presets.push_back(choice.tensor_preset);
  if (presets.empty() || choice.data > 1) presets.push_back(choice.sharing);
  plan.preset = join(presets, "+");
  plan.layouts = layouts_on(plan.mesh, choice.layouts);
  plan.accumulate = choice.microbatches;
  if (choice.pipe > 1) {
    plan.schedule = choice.schedule;
    if (choice.chunks > 1) plan.chunks = choice.chunks;
    plan.stages = begins;
    if (choice.boundaries == Plan::Boundaries::kParts) plan.boundaries = choice.boundaries;
  }
  if (choice.recompute != Recompute::Kind::kNone) plan.recompute = Recompute{choice.recompute};
  if (choice.offload != Choice::Offload::kNothing) {
    const bool all = choice.offload == Choice::Offload::kAllStates;
    plan.offload = Plan::Offload{.folder = "", .weights = all, .gradients = all};
  }
  return plan;
}

bool goes_with(const Choice& choice, const Features& settings) {
  Features features = features_of(plan_of(choice, {}));
  features.insert(settings.begin(), settings.end());
  return !refused_by(features);
}

Wish parse_wish(std::string_view text) {
  Wish wish;
  std::vector<std::string> known;
  for (const auto& [key, value] : words_of({})) known.push_back(key);
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (std::ranges::find(known, key) == known.end())
      throw_error("'{}' is nothing that a plan is searched over; {}", key, suggestion(key, known));
    if (equals == part.npos || equals + 1 == part.size())
      throw_error("'{}' says no value; expected {}=…, like tensor=8,pipe=4", part, key);
    wish[key] = part.substr(equals + 1);
  }
  return wish;
}

bool fits(const Choice& choice, const Wish& wish) {
  const auto words = words_of(choice);
  return std::ranges::all_of(wish, [&](const auto& entry) { return words.at(entry.first) == entry.second; });
}

std::vector<Choice> all_choices(const Subject& subject, const Cluster& cluster) {
  int in_host = 1 << 30;
  for (const HostClass& host : cluster.hosts) in_host = std::min(in_host, host.devices);
  const int devices = cluster.device_count();
  const int most_tensor = in_host > 1 ? in_host : devices;
  Space space{subject, LayoutFinder(subject, cluster)};
  for (int tensor = 1; tensor <= std::min(devices, most_tensor); ++tensor) {
    if (devices % tensor != 0 || subject.tensor_divides % tensor != 0) continue;
    for (int pipe = 1; pipe <= std::min<int>(devices / tensor, static_cast<int>(subject.units.size()));
         ++pipe) {
      if (devices / tensor % pipe != 0) continue;
      Choice choice{.data = devices / tensor / pipe, .tensor = tensor, .pipe = pipe};
      if (tensor == 1) {
        space.add_microbatches(choice);
        continue;
      }
      for (const std::string& preset : subject.tensor_presets) {
        choice.tensor_preset = preset;
        space.add_microbatches(choice);
        if (choice.split().row_parts() > 1) space.add_microbatches(choice, Space::Tensor::kFound);
      }
      choice.tensor_preset.clear();
      space.add_microbatches(choice, Space::Tensor::kFound);
    }
  }
  // By what of a choice is a feature; there are many choices of few kinds.
  std::map<std::tuple<bool, bool, bool, std::string, std::string, std::string>, bool> goes;
  std::erase_if(space.found, [&](const Choice& choice) {
    const auto [kind, is_new] = goes.try_emplace({choice.pipe > 1, choice.tensor > 1, choice.layouts.empty(),
                                                  choice.sharing, choice.tensor_preset, choice.schedule});
    if (is_new) kind->second = goes_with(choice, subject.features);
    return !kind->second;
  });
  return std::move(space.found);
}

}  // namespace trireme::planner
