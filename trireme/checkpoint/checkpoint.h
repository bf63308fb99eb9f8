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
//
// A checkpoint can be written in the background: each process copies its share in memory, which takes a small
// part of the time that the disk takes, and continues. What was promised above holds for it as well.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint_files.h"
#include "trireme/checkpoint/parts_copy.h"
#include "trireme/checkpoint/state.h"
#include "trireme/checkpoint/tensor_files.h"

namespace trireme {

struct LoadedCheckpoint {
  std::string path;
  TrainState state;
  TensorFiles model;
  TensorFiles optimizer;
  // One sentence for each newer checkpoint that was damaged and skipped; to be logged.
  std::vector<std::string> messages;
};

// The processes that save and load together; this one alone by default.
struct CheckpointPeers {
  int index = 0, count = 1;
  // Whether all say yes. All ask at the same time.
  std::function<bool(bool)> agree = [](bool yes) { return yes; };
  int here = 1;  // of them, on this host
};

// A checkpoint that was not written, by a reason that may pass: a full disk, a folder that is gone for a
// while.
class NotSaved : public Error {
 public:
  enum class Where { kHere, kOnAnotherRank };
  NotSaved(const std::string& text, Where failed) : Error(text), failed_(failed) {}
  Where failed() const { return failed_; }

 private:
  Where failed_;
};

// Not thread-safe, and only one group of peers at a time may save in a run; any number may load.
class Checkpoints {
 public:
  // `keep`: how many checkpoints stay. Throws Error if it is below 1.
  Checkpoints(const std::string& run_dir, int64_t keep, CheckpointPeers peers = {});

  // Writes the checkpoint of state.step, replacing one of the same step, and then removes what is too many.
  // Every peer gives the parts that it is to write; together they give each element once. Returns its path.
  // When one fails (a full disk, …) what was written is removed and all throw NotSaved; that of the one that
  // failed says how much room was needed, why it failed and which checkpoint is still there.
  //
  // Of more than `keep` checkpoints up to this one, damaged ones go first and then the oldest, but two that
  // are whole always stay.
  std::string save(const TrainState& state, std::span<const PartView> model,
                   std::span<const PartView> optimizer);

  // The same in the background: returns when the parts are copied. Until poll() or settle() has returned the
  // path or thrown, nothing else is saved. A process without memory for the copy writes before it returns.
  void begin(const TrainState& state, std::span<const PartView> model, std::span<const PartView> optimizer);
  bool is_under_way() const { return job_.valid(); }
  // Asks all peers, at the same time, how far they are. Returns the path when the checkpoint is there, and
  // nothing while a peer is still writing. Throws NotSaved.
  std::optional<std::string> poll();
  std::string settle();  // waits until poll() returns it

  // The checkpoints of these steps stay, beside the `keep` others. Not while one is under way.
  void always_keep(std::set<int64_t> steps) { always_kept_ = std::move(steps); }

  // Removes what killed writers left. Only the peers that save in this run may call it.
  void clean_up() const;

  // The newest checkpoint whose files are what was written, or nothing when there is none at all. Throws
  // an Error when there are some but all are damaged. Peers verify a share of the files each.
  std::optional<LoadedCheckpoint> load_latest() const;

  const std::string& path() const { return path_; }  // RUN/checkpoints
  std::vector<int64_t> steps() const;                // ascending

 private:
  // All peers have done one before any does the next: the first peer makes the folder, each writes its share,
  // the first one joins the shares.
  enum class Phase { kPrepare, kWrite, kJoin };
  enum class Pace { kAtOnce, kInBackground };
  struct Saving {
    TrainState state;
    std::string incoming, final;  // folders
    uint64_t bytes = 0;           // of this peer's share
    Phase phase = Phase::kPrepare;
  };

  void begin(const TrainState& state, const CheckpointShare& share, Pace pace);
  void start(Phase phase, Pace pace, const std::function<void()>& body);
  void end_phase();
  void publish();
  void remove_surplus(int64_t newest);
  bool is_whole(int64_t step);
  bool leads() const { return peers_.index == 0; }

  std::string path_;
  int64_t keep_;
  std::set<int64_t> always_kept_;
  CheckpointPeers peers_;
  std::map<int64_t, uint64_t> whole_;  // steps whose files were as written, and what they looked like then
  PartsCopy copy_;
  Saving saving_;
  // What went wrong in the phase under way; "": nothing. The last member, because its end waits for the
  // thread, which uses the others.
  std::future<std::string> job_;
};

// Opens one checkpoint folder, after comparing every file with its checksum. Throws Error, on all peers.
LoadedCheckpoint open_checkpoint(const std::string& path, const CheckpointPeers& peers = {});

// "step-00001000", and back; nothing for other names.
std::string checkpoint_name(int64_t step);
std::optional<int64_t> parse_checkpoint_name(std::string_view name);

}  // namespace trireme
