// See choice.h.
#include "trireme/planner/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/planner/layout_finder.h"
#include "trireme/planner/schedule_book.h"

namespace trireme::planner {
namespace {

constexpr Sharing kSharings[] = {{"data"},
                                 {.name = "zero1", .states = true},
                                 {.name = "zero2", .states = true, .gradients = true},
                                 {.name = "zero3", .states = true, .gradients = true, .parameters = true}};
constexpr Recompute::Kind kRecomputes[] = {Recompute::Kind::kNone, Recompute::Kind::kSelective,
                                           Recompute::Kind::kFull, Recompute::Kind::kFullKeepCollectives};
constexpr int kMostChunks = 6;                // of a stage
constexpr int64_t kMostRows = 1024;           // of a microbatch on one rank
constexpr int64_t kMostMicrobatches = 65536;  // what train.accumulate may be
constexpr int64_t kMostTurns = 2048;  // microbatches times chunks of a stage: what a schedule is written for

std::string tensor_words(const Choice& choice) {
  if (choice.layouts.empty()) return choice.tensor_preset;
  return choice.tensor_preset.empty() ? "layouts" : choice.tensor_preset + " with layouts";
}

// The value of a choice along an axis of the space, as people say it.
struct ValueOnAxis {
  std::string_view name;
  std::string (*of)(const Choice& choice);
};
constexpr ValueOnAxis kAxes[] = {
    {"data", [](const Choice& c) { return std::to_string(c.data); }},
    {"tensor", [](const Choice& c) { return std::to_string(c.tensor); }},
    {"pipe", [](const Choice& c) { return std::to_string(c.pipe); }},
    {"tensor_preset", [](const Choice& c) { return c.layouts.empty() ? c.tensor_preset : "layouts"; }},
    {"rows", [](const Choice& c) { return std::to_string(c.rows); }},
    {"microbatches", [](const Choice& c) { return std::to_string(c.microbatches); }},
    {"recompute", [](const Choice& c) { return std::string(name(c.recompute)); }},
    {"sharing", [](const Choice& c) { return c.sharing; }},
    {"schedule", [](const Choice& c) { return c.schedule; }},
    {"chunks", [](const Choice& c) { return std::to_string(c.chunks); }},
    {"boundaries",
     [](const Choice& c) {
       return std::string(c.boundaries == Plan::Boundaries::kParts ? "parts" : "whole");
     }},
};

// The values of all axes, one axis after another: each of these takes the choices so far and gives those with
// every value of its own axis.
class Space {
 public:
  Space(const Subject& subject, const Cluster& cluster, Devices devices)
      : subject_(subject), cluster_(cluster), devices_(devices), layouts_(subject, cluster) {}

  std::vector<Choice> all() {
    constexpr void (Space::*kVaried[])(Choice, std::vector<Choice>&) = {
        &Space::vary_mesh,    &Space::vary_tensor_preset, &Space::vary_rows,      &Space::vary_recompute,
        &Space::vary_sharing, &Space::vary_schedule,      &Space::vary_boundaries};
    std::vector<Choice> choices = {{}};
    for (const auto vary : kVaried) {
      std::vector<Choice> varied;
      for (const Choice& choice : choices) (this->*vary)(choice, varied);
      choices = std::move(varied);
    }
    return choices;
  }

 private:
  std::set<int> device_counts() const {
    std::set<int> counts = {cluster_.device_count()};
    if (devices_ == Devices::kAll) return counts;
    for (int count = cluster_.device_count(); count % 2 == 0; count /= 2) counts.insert(count / 2);
    for (int count = 1; count < cluster_.device_count(); count *= 2) counts.insert(count);
    return counts;
  }

  void vary_mesh(Choice, std::vector<Choice>& to) {
    for (const int devices : device_counts()) add_meshes(devices, to);
  }
  void add_meshes(int devices, std::vector<Choice>& to) const {
    int in_host = 1 << 30;
    for (const HostClass& host : cluster_.hosts) in_host = std::min(in_host, host.devices);
    const int units = static_cast<int>(subject_.units.size());
    const int most_tensor = in_host > 1 ? in_host : devices;
    for (int tensor = 1; tensor <= std::min(devices, most_tensor); ++tensor) {
      if (devices % tensor != 0 || subject_.tensor_divides % tensor != 0) continue;
      for (int pipe = 1; pipe <= std::min(devices / tensor, units); ++pipe) {
        if (devices / tensor % pipe == 0)
          to.push_back({.data = devices / tensor / pipe, .tensor = tensor, .pipe = pipe});
      }
    }
  }

  // What presets say. Layouts that are found over them depend on the rows.
  void vary_tensor_preset(Choice choice, std::vector<Choice>& to) {
    if (choice.tensor == 1) {
      to.push_back(choice);
      return;
    }
    for (const std::string& preset : subject_.tensor_presets) {
      to.push_back(choice);
      to.back().tensor_preset = preset;
      if (to.back().split().row_parts() == 1) continue;
      to.push_back(to.back());
      to.back().layouts = kToBeFound;
    }
    to.push_back(choice);
    to.back().layouts = kToBeFound;
  }

  void vary_rows(Choice choice, std::vector<Choice>& to) {
    const Choice given = choice;
    const int64_t own = subject_.batch / choice.row_parts();
    if (own == 0 || subject_.batch % choice.row_parts() != 0) return;
    for (choice.rows = 1; choice.rows <= std::min(own, kMostRows); choice.rows *= 2) {
      if (own % choice.rows != 0) break;
      choice.microbatches = own / choice.rows;
      if (choice.microbatches > kMostMicrobatches) continue;
      if (given.layouts == kToBeFound) {
        const AxisQuestion::Rows rows =
            given.tensor_preset.empty() ? AxisQuestion::Rows::kSame : AxisQuestion::Rows::kShared;
        const std::optional<TensorSplit> split =
            layouts_.find(choice.tensor, rows, choice.rows, choice.microbatches);
        if (!split) continue;
        choice.tensor_preset = split->preset;
        choice.layouts = split->layouts;
      }
      to.push_back(choice);
    }
  }

  void vary_recompute(Choice choice, std::vector<Choice>& to) {
    for (const Recompute::Kind recompute : kRecomputes) {
      // Elsewhere blocks have no collectives that are worth keeping.
      if (recompute == Recompute::Kind::kFullKeepCollectives && choice.tensor == 1) continue;
      choice.recompute = recompute;
      to.push_back(choice);
    }
  }

  void vary_sharing(Choice choice, std::vector<Choice>& to) {
    for (const Sharing& sharing : kSharings) {
      choice.sharing = sharing.name;
      to.push_back(choice);
      if (choice.data == 1) return;
    }
  }

  void vary_schedule(Choice choice, std::vector<Choice>& to) {
    if (choice.pipe == 1) {
      to.push_back(choice);
      return;
    }
    for (const PipelineSchedule* schedule : schedules_) {
      choice.schedule = schedule->name;
      const int most = std::min(kMostChunks, schedule->needs.most_chunks);
      for (choice.chunks = schedule->needs.least_chunks; choice.chunks <= most; ++choice.chunks) {
        if (choice.pipe * choice.chunks > std::ssize(subject_.units)) break;
        if (choice.microbatches * choice.chunks > kMostTurns) break;
        if (refusal(*schedule, {choice.pipe, choice.microbatches, choice.chunks}).empty())
          to.push_back(choice);
      }
    }
  }

  // Inside one host gathers take as long as messages save.
  void vary_boundaries(Choice choice, std::vector<Choice>& to) {
    to.push_back(choice);
    if (choice.pipe == 1 || choice.tensor == 1 || cluster_.host_count() == 1) return;
    choice.boundaries = Plan::Boundaries::kParts;
    to.push_back(choice);
  }

  static const inline LayoutTexts kToBeFound = {{"*", ""}};

  const Subject& subject_;
  const Cluster& cluster_;
  const Devices devices_;
  LayoutFinder layouts_;
  const std::vector<const PipelineSchedule*> schedules_ = searched_schedules();
};

}  // namespace

int64_t Choice::row_parts() const {
  return data * split().row_parts();
}

Split Choice::split() const {
  const bool apart =
      !schedule.empty() && find_schedule(schedule).weights == PipelineSchedule::Weights::kApart;
  return {tensor, tensor_preset, layouts, rows, recompute, apart ? WeightPhase::kApart : WeightPhase::kNone};
}

const Sharing& sharing_of(const Choice& choice) {
  const auto found = std::ranges::find(kSharings, choice.sharing, &Sharing::name);
  TRIREME_CHECK((found != std::end(kSharings)));
  return *found;
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
  if (choice.bucket_kib > 0)
    text += ", buckets of " + format_bytes(static_cast<size_t>(choice.bucket_kib) << 10);
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
  if (choice.bucket_kib > 0) plan.bucket_kib = choice.bucket_kib;
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
  const std::vector<std::string> known = choice_axes();
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
  return std::ranges::all_of(wish, [&](const auto& entry) {
    const auto axis = std::ranges::find(kAxes, entry.first, &ValueOnAxis::name);
    TRIREME_CHECK((axis != std::end(kAxes)));
    return axis->of(choice) == entry.second;
  });
}

std::vector<std::string> choice_axes() {
  std::vector<std::string> names;
  for (const ValueOnAxis& axis : kAxes) names.emplace_back(axis.name);
  return names;
}

std::vector<Choice> all_choices(const Subject& subject, const Cluster& cluster, Devices devices) {
  std::vector<Choice> choices = Space(subject, cluster, devices).all();
  // By what of a choice is a feature; there are many choices of few kinds.
  using Kind = std::tuple<bool, bool, bool, std::string, std::string, std::string, Plan::Boundaries>;
  std::map<Kind, bool> goes;
  std::erase_if(choices, [&](const Choice& choice) {
    const auto [kind, is_new] =
        goes.try_emplace({choice.pipe > 1, choice.tensor > 1, choice.layouts.empty(), choice.sharing,
                          choice.tensor_preset, choice.schedule, choice.boundaries});
    if (is_new) kind->second = goes_with(choice, subject.features);
    return !kind->second;
  });
  return choices;
}

}  // namespace trireme::planner
