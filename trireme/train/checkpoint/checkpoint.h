// The checkpoints of one run: folders RUN/checkpoints/step-00001000/ that hold
//
//   model.safetensors       the weights
//   optimizer.safetensors   all other tensors: moments, master weights, …
//   state.json              step, seed, position in the data, loss scale, …
//   checksums.json          size and XXH64 of all others
//
// When several processes save together, each writes its share at the same time, and instead of one file there
// are model-00001-of-00004.safetensors, … with model.safetensors.index.json (tensor_index.h), and the like
// for the optimizer. All of them see one file system.
//
// A folder of that name is always whole: it is written under another name, flushed to the disk, and
// renamed when all have written. Whatever stops a writer, the checkpoints before it stay as they were.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/train/checkpoint/state.h"
#include "trireme/train/checkpoint/tensor_files.h"

namespace trireme {

struct LoadedCheckpoint {
  std::string path;
  TrainState state;
  TensorFiles model;
  TensorFiles optimizer;
  // One sentence for each newer checkpoint that was damaged and passed over; to be logged.
  std::vector<std::string> messages;
};

// The processes that save and load together; this one alone by default.
struct CheckpointPeers {
  int index = 0, count = 1;
  // Whether all say yes. All ask at the same time.
  std::function<bool(bool)> agree = [](bool yes) { return yes; };
};

// Not thread-safe, and only one group of peers at a time may save in a run; any number may load.
class Checkpoints {
 public:
  // `keep`: how many checkpoints stay, at least 1.
  Checkpoints(const std::string& run_dir, int64_t keep, CheckpointPeers peers = {});

  // Writes the checkpoint of state.step and then removes the oldest beyond `keep`; one of the same step is
  // replaced. Every peer gives the parts that it is to write; together they give each element once. Returns
  // its path. When one fails (a full disk, …) what was written is removed and all throw an Error; that of the
  // one that failed says how much room was needed, why it failed and which checkpoint is still there.
  std::string save(const TrainState& state, std::span<const PartView> model,
                   std::span<const PartView> optimizer) const;

  // The newest checkpoint whose files are what was written, or nothing when there is none at all. Throws
  // an Error when there are some but all are damaged. Peers verify a share of the files each.
  std::optional<LoadedCheckpoint> load_latest() const;

  const std::string& path() const { return path_; }  // RUN/checkpoints
  std::vector<int64_t> steps() const;                // ascending

 private:
  std::string path_;
  int64_t keep_;
  CheckpointPeers peers_;
};

// Opens one checkpoint folder, after comparing every file with its checksum. Throws Error, on all peers.
LoadedCheckpoint open_checkpoint(const std::string& path, const CheckpointPeers& peers = {});

// "step-00001000", and back; nothing for other names.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> parse_checkpoint_name(std::string_view name);

}  // namespace trireme
