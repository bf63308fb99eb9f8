// The checkpoints of one run: folders RUN/checkpoints/step-00001000/ that hold
//
//   model.safetensors       the weights
//   optimizer.safetensors   all other tensors: moments, master weights, …
//   state.json              step, seed, position in the data, loss scale, …
//   checksums.json          size and XXH64 of the three
//
// A folder of that name is always whole: it is written under another name, flushed to the disk, and
// renamed. Whatever stops the writer, the checkpoints before it stay as they were.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/train/checkpoint/safetensors.h"
#include "trireme/train/checkpoint/state.h"

namespace trireme {

struct LoadedCheckpoint {
  std::string path;
  TrainState state;
  SafetensorsFile model;
  SafetensorsFile optimizer;
  // One sentence for each newer checkpoint that was damaged and passed over; to be logged.
  std::vector<std::string> messages;
};

// Not thread-safe, and one process at a time may save in a run; any number may load.
class Checkpoints {
 public:
  // `keep`: how many checkpoints stay, at least 1.
  Checkpoints(const std::string& run_dir, int64_t keep);

  // Writes the checkpoint of state.step and then removes the oldest beyond `keep`; one of the same step is
  // replaced. Returns its path. On failure (a full disk, …) removes what it wrote and throws an Error that
  // says how much room was needed, why it failed and which checkpoint is still there.
  std::string save(const TrainState& state, std::span<const NamedTensor> model,
                   std::span<const NamedTensor> optimizer) const;

  // The newest checkpoint whose files are what was written, or nothing when there is none at all. Throws
  // an Error when there are some but all are damaged.
  std::optional<LoadedCheckpoint> load_latest() const;

  const std::string& path() const { return path_; }  // RUN/checkpoints
  std::vector<int64_t> steps() const;                // ascending

 private:
  std::string path_;
  int64_t keep_;
};

// Opens one checkpoint folder, after comparing every file with its checksum. Throws Error.
LoadedCheckpoint open_checkpoint(const std::string& path);

// "step-00001000", and back; nothing for other names.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> parse_checkpoint_name(std::string_view name);

}  // namespace trireme
