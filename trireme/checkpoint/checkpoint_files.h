// The files of a checkpoint's folder: one writer's share of them, what joins the shares, and which there are.
// Used by checkpoint.h, which makes folders whole or not there at all.
#pragma once

#include <span>
#include <string>

#include "trireme/checkpoint/state.h"
#include "trireme/checkpoint/tensor_part.h"

namespace trireme {

struct CheckpointShare {
  int index = 0, count = 1;  // of the writers
  std::span<const PartView> model, optimizer;
};

// Writes them; when there are several writers, also notes on them for join_shares(). Throws Error.
void write_share(const std::string& folder, const CheckpointShare& share);
// When all shares are written: writes what they have in common. Throws Error, also when shares are missing or
// do not have every element once.
void join_shares(const std::string& folder, int count, const std::string& state);

// The files that a folder says it has.
struct CheckpointFiles {
  explicit CheckpointFiles(const std::string& folder);  // throws Error

  Checksums checksums;                  // of all but checksums.json, by name
  std::string model, optimizer, state;  // paths; of tensors: a safetensors file or an index
};

// A file of text, which must be small. Throws Error.
std::string read_text(const std::string& path);

}  // namespace trireme
