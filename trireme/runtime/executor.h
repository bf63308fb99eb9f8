// Runs a Program on a device. All memory is allocated when the executor is made, as the Program planned it;
// running a segment allocates nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/file_turns.h"
#include "trireme/program/program.h"
#include "trireme/runtime/device.h"
#include "trireme/runtime/device_queries.h"
#include "trireme/runtime/file_states.h"

namespace trireme {

class Executor {
 public:
  // Throws an Error that names the op when the device has no kernel for a node. States start undefined.
  // `communicator` is for programs with collectives, and is used by whoever runs a segment.
  // `folder` is for programs whose states rest in files (Program::groups).
  Executor(Program program, Device& device, Communicator* communicator = nullptr,
           const std::string& folder = "");

  const Program& program() const { return program_; }
  size_t allocated_bytes() const;  // what was allocated for states, arena and inputs: the program's peak

  // Segments are named by Program::segment(). Inputs keep their contents from run to run.
  void set_input(int segment, std::string_view name, const void* data, size_t bytes);
  void tell(std::string_view name, float value);  // a number, to all segments that have such an input
  // The same for the next run of the segment, while the last one may still compute. False, and nothing was
  // done, for an input that is small, or read until late.
  bool set_next_input(int segment, std::string_view name, const void* data, size_t bytes);
  // On one slot of the states that have several; see State::slots. States that rest in files are waited for,
  // and fetched where nobody has; to store them is left to start_store().
  void run(int segment, int64_t slot = 0);
  void start_fetch(int group);
  void start_store(int group);
  FileStates::Times take_file_times() { return files_ ? files_->take_times() : FileStates::Times(); }
  // The value of an output after the last run of the segment, before any other segment runs.
  void read_output(int segment, std::string_view name, void* data, size_t bytes);
  float scalar_output(int segment, std::string_view name);

  // The only ways in which states cross between host and device: whole, or `bytes` of one from `offset` on;
  // slots lie after one another, State::stride() apart.
  void write_state(std::string_view name, const void* data, size_t bytes);
  void read_state(std::string_view name, void* data, size_t bytes);
  void write_state(std::string_view name, size_t offset, const void* data, size_t bytes);
  void read_state(std::string_view name, size_t offset, void* data, size_t bytes);
  const TensorType& state_type(std::string_view name) const;  // an Error when there is no such state
  // For messages: where a slot of one of the program's states lies.
  std::byte* slot_memory(const State& state, int64_t slot) const;
  void synchronize();
  // That reaches the device's memory; null for one rank.
  Communicator* communicator() const { return reaching_ ? reaching_.get() : communicator_; }

  // Runs a segment node by node and returns a description of the first node that makes a NaN or infinity, and
  // of the input that was not finite before it, if any; "" when there is none. States that are written in
  // place move on as in a run. For explaining a bad loss, not for speed.
  std::string find_non_finite(int segment);
  // From now on, run() shows every result of every node to `observer` right after it was made, in host
  // memory, and continues with the result as the observer leaves it. For studies of rounding, not for speed.
  // Null: stop that.
  using Observer = std::function<void(int segment, int node, int output, const TensorView& result)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  // From now on, run() tells `timer` the seconds that the device was busy with each node, of nodes that are
  // launched together their share; for profiles. What telling them apart takes is part of it, as long for
  // every launch. Null: no more.
  using Timer = std::function<void(int segment, int node, double seconds)>;
  void time(Timer timer) { timer_ = std::move(timer); }

 private:
  struct Launch {
    const Kernel* kernel;
    int first_input, inputs, first_output, outputs;  // ranges of views_
    std::byte* workspace;
    const Attrs* attrs;
    int node;
  };
  using Marks = std::vector<std::unique_ptr<Mark>>;
  // Groups up to an end, from the end of the piece before on: a stretch without collectives, which can be
  // noted down as a whole, or a collective.
  struct Piece {
    int group_end;
    enum class Kind { kCompute, kCollective } kind;
    bool ends_early_reads = false;        // behind it nobody reads the segment's early inputs
    std::unique_ptr<Replay> replay = {};  // where the device gains by it
    // The same with marks, of runs that are timed: not noted down for each, because what is replayed for the
    // first time comes to the device as slowly as single launches.
    std::unique_ptr<Replay> timed_replay = {};
    Marks marks = {};
  };
  // A segment on one slot.
  struct Prepared {
    int segment;
    std::vector<Launch> launches;
    std::vector<int> group_ends;  // launches up to each of these, from the one before on, go together
    std::vector<TensorView> views;
    std::vector<std::byte*> addresses;  // per value
    int64_t runs = 0;
    std::vector<Piece> pieces;
  };
  struct SegmentSlots {
    Buffer inputs;
    std::vector<Prepared> slots;
    int last = 0;  // that was run
    // Large inputs that are read at the beginning alone, so that those of the next run can come in while this
    // one still computes; when they were read, and when the next ones have come.
    std::vector<ValueId> early;
    std::unique_ptr<Event> early_read, next_came;
  };

  void open_files(const std::string& folder);
  std::unique_ptr<Event> launched();
  Buffer memory(size_t bytes);
  Buffer comm_memory(size_t bytes);
  std::byte* state_address(size_t offset) const;
  const State& find_state(std::string_view name) const;
  std::byte* stretch(std::string_view name, size_t offset, size_t bytes) const;
  template <typename Move>
  void for_each_group(const State& state, size_t offset, size_t bytes, const Move& move) const;
  void prepare(int segment);
  Prepared prepare(int segment, int slot, const Buffer& inputs) const;
  const Prepared& last(int segment) const;
  static void group(Prepared& prepared);
  void cut_into_pieces(Prepared& prepared) const;
  void launch(const Prepared& prepared, const Launch& launch);
  void launch_group(const Prepared& prepared, int first, int last);
  void launch_groups(const Prepared& prepared, int first_group, int last_group, Marks* marks = nullptr);
  void launch_pieces(Prepared& prepared);
  void launch_observed(const Prepared& prepared);
  void launch_timed(const Prepared& prepared, int first_group, Piece& piece);
  void finish(const Prepared& prepared);
  void show(const Prepared& prepared, const Launch& launch);
  std::byte* input_address(int segment, std::string_view name, size_t bytes) const;
  void find_early_inputs(int segment);
  void await_next_inputs(SegmentSlots& segment);

  Program program_;
  Device& device_;
  Communicator* communicator_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> uploads_;  // of inputs ahead of time, made when the first one comes
  Buffer states_, arena_, comm_states_, comm_;
  std::unique_ptr<FileStates> files_;             // null where all states rest in memory
  std::vector<std::vector<GroupUse>> file_uses_;  // per segment
  std::vector<SegmentSlots> prepared_;
  // The device's memory: in the other one's place, where need be. It goes before the memory does.
  std::unique_ptr<Communicator> reaching_;
  Observer observer_;
  Timer timer_;
};

}  // namespace trireme
