// A point of the space that is searched: how many ranks each axis has, and what the plan does along it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh/cluster.h"
#include "trireme/planner/subject.h"
#include "trireme/planner/unit_costs.h"

namespace trireme::planner {

struct Choice {
  int data = 1, tensor = 1, pipe = 1;
  std::string sharing = "data";  // a preset over the axis data
  std::string tensor_preset;     // "": none
  LayoutTexts layouts = {};      // over that, of the axis tensor
  int64_t rows = 1;              // of a microbatch, on one rank
  int64_t microbatches = 1;
  std::string schedule;  // "" without a pipeline
  int chunks = 1;        // of each stage
  Recompute::Kind recompute = Recompute::Kind::kNone;
  Plan::Boundaries boundaries = Plan::Boundaries::kWhole;
  int64_t bucket_kib = 0;  // of the plan; 0: its default. The search tries others at its end
  // What rests in the host's memory; the search tries it where nothing fits without.
  enum class Offload { kNothing, kOptimizer, kAllStates } offload = Offload::kNothing;

  int ranks() const { return data * tensor * pipe; }
  Split split() const;
  // Parts that a microbatch is dealt in over the ranks of a stage.
  int64_t row_parts() const;

  friend auto operator<=>(const Choice&, const Choice&) = default;
};

// What ranks along the axis data share, by the name of its preset.
struct Sharing {
  std::string_view name;
  bool states = false, gradients = false, parameters = false;
};
const Sharing& sharing_of(const Choice& choice);

// "data 4, tensor 8, pipe 2 (1f1b), zero1, 16 microbatches of 2 rows a rank, recompute full".
std::string to_string(const Choice& choice);

// Whether a choice goes with the settings (plan/combinations.h).
bool goes_with(const Choice& choice, const Features& settings);

// The plan of a choice that is cut before these units; none: where balanced_cut() cuts.
Plan plan_of(const Choice& choice, const std::vector<std::string>& begins);

// What choices are held to: an axis of the space (choice_axes()) and its value as text.
using Wish = std::map<std::string, std::string, std::less<>>;
// "tensor=8,pipe=4". Throws Error for what is none, with the nearest name.
Wish parse_wish(std::string_view text);
bool fits(const Choice& choice, const Wish& wish);
// The axes of the space, which a wish can name.
std::vector<std::string> choice_axes();

// How many of a cluster's devices a plan uses: all, or also half of them, a quarter and so on, and powers of
// two; the first ones then.
enum class Devices { kAll, kAny };

// Every choice: every value of every axis of the space. The axis tensor stays inside a host where hosts have
// several devices.
std::vector<Choice> all_choices(const Subject& subject, const Cluster& cluster,
                                Devices devices = Devices::kAll);

}  // namespace trireme::planner
