// The small files of a checkpoint, both JSON: state.json, where the run stands; checksums.json, what the
// other files hold. Parsing is strict and refuses with an Error that opens with `where`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "trireme/checkpoint/file_io.h"
#include "trireme/data/batch.h"

namespace trireme {

// Everything but tensors that a run needs to go on as if it had not stopped.
struct TrainState {
  int64_t step = 0;  // steps of the optimizer that are done
  uint64_t seed = 0;
  DataPosition data;
  double loss_scale = 1.0;  // finite; for f16
  int64_t scale_age = 0;    // good steps since the loss scale last changed
  // What the run was made with, by name: settings, data, plan, build; for those who go on from here. Empty in
  // checkpoints of older versions.
  std::map<std::string, std::string> made_with;
  std::string extra = "{}";  // a JSON object, for what a training loop adds of its own

  bool operator==(const TrainState&) const = default;
};

std::string render_state(const TrainState& state);  // throws Error when `extra` is no JSON object
TrainState parse_state(std::string_view json, std::string_view where);

// By file name.
using Checksums = std::map<std::string, FileDigest>;

std::string render_checksums(const Checksums& checksums);
Checksums parse_checksums(std::string_view json, std::string_view where);

}  // namespace trireme
