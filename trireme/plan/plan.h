// Plan: how a training step is spread over ranks. A file in JSON, or the name of a preset for all ranks:
//
//   {"mesh": "data:2 tensor:4", "preset": "megatron+zero1"}
//
// The presets are in preset.h, one over each axis, joined by +. docs/plans.md has all keys.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/mesh/layout.h"
#include "trireme/mesh/mesh.h"
#include "trireme/plan/agreement.h"
#include "trireme/plan/preset.h"

namespace trireme {

// Which values of the forward part are not kept for the backward part but made again (passes/recompute.h).
struct Recompute {
  enum class Kind { kNone, kFull, kSelective, kFullKeepCollectives, kNamed } kind = Kind::kNone;
  std::vector<std::string> names = {};  // kNamed: of scopes and values, patterns (fits_pattern)

  friend bool operator==(const Recompute&, const Recompute&) = default;
};
// As in plans; not of kNamed, which has names instead.
std::string_view name(Recompute::Kind kind);

struct Plan {
  Mesh mesh;  // no axes: one rank
  std::string preset = "data";
  // How single values lie, over what the preset says: a pattern of names (fits_pattern) and a layout.
  // The first that fits a name counts. A parameter takes its gradient and the optimizer's states with it.
  std::vector<std::pair<std::string, Layout>> layouts = {};
  // What the file says of these beats a setting's default; two values that differ are refused
  // (run/config.h).
  std::optional<int64_t> accumulate = {};     // microbatches of a step
  std::optional<std::string> precision = {};  // f32, bf16, f16
  // Over how many rows batch normalisation takes its statistics: all of a microbatch, or those of a rank.
  enum class BatchNorm { kSynchronised, kLocal };
  std::optional<BatchNorm> batch_norm = {};  // synchronised
  // An algorithm of comm/ for the collectives along an axis; automatic where an axis is not named.
  std::map<std::string, std::string, std::less<>> algorithms = {};
  // As many bytes share a collective, in KiB (passes/bucket.h).
  std::optional<int64_t> bucket_kib = {};  // 4096
  // A pipeline over the axis pipe: the order of its stages' work (schedule/pipeline.h), the chunks of the
  // model that each stage has, and the scopes at which chunks begin; none: where it balances costs.
  std::optional<std::string> schedule = {};
  std::optional<int> chunks = {};          // 1
  std::optional<bool> vertical_sync = {};  // of pipedream (PipelineShape::Versions)
  std::vector<std::string> stages = {};
  // What ranks along the axis tensor all have goes from stage to stage whole, or each rank sends a part.
  enum class Boundaries { kWhole, kParts };
  std::optional<Boundaries> boundaries = {};  // whole
  std::optional<Recompute> recompute = {};    // none
  Agreement agreement = {};                   // how replicas agree, of the key `exchange`
  // States that rest elsewhere than in the device's memory: those of the optimizer and, where it says so,
  // weights and gradients, for which the model is computed chunk by chunk.
  struct Offload {
    std::string
        folder;  // each rank has a file there; "": memory of the host, for devices that have their own
    bool weights = false, gradients = false;

    bool cuts_model() const { return weights || gradients; }
    friend bool operator==(const Offload&, const Offload&) = default;
  };
  std::optional<Offload> offload = {};

  int pipeline_stages() const;  // ranks along the axis pipe; 1 where there is none
  // Whether it is computed in chunks: by the stages of a pipeline, or for offload.
  bool cuts_model() const { return pipeline_stages() > 1 || (offload && offload->cuts_model()); }
  // The axis whose ranks have states of different parts of the model: pipe, or server (Servers, between
  // steps); −1 where there is none.
  int parts_axis() const;
  std::string parts_axis_name() const;  // "" where that has one rank too
  // Without that axis, whose ranks do different things with the same layouts; without servers, which have no
  // rows; and a rank's place in it.
  Plan of_one_stage() const;
  int rank_in_stage(int rank) const;

  bool has(std::string_view part) const;  // whether it is one of the preset's parts
  // What the preset does along an axis: `data` and `replica` for those axes where it names nothing else, and
  // of two parts the one that changes the other. Null where it does nothing.
  const Preset* preset_over(std::string_view axis) const;
  // What `layouts` says of a value, if anything.
  const Layout* layout_of(std::string_view name) const;
};

// `text`: a preset that needs one axis, which gets all ranks; a plan itself, in JSON; or the path of a file
// with one. Throws Error for unknown keys, presets and axes, and when the mesh has another number of ranks. 0
// ranks: as many as the plan says.
Plan read_plan(const std::string& text, int ranks);
Plan parse_plan(std::string_view json, std::string_view source);
const std::vector<std::string>& plan_keys();  // that it knows
// With every key that was read.
std::string to_json(const Plan& plan);

// Whether a name fits a pattern in which * stands for any text without a /: h.*.weight is weights of all
// blocks, h.*/attn/* what is made in their attention.
bool fits_pattern(std::string_view pattern, std::string_view name);

}  // namespace trireme
