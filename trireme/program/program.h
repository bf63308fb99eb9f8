// What one rank executes: states that live as long as the run, segments, each a graph with a place in memory
// for every value, and lists of actions that say in which order segments are run. Built from graphs by the
// passes (build.h); the runtime only follows it. text.h has its text form, verify.h what must hold.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/mesh/mesh.h"
#include "trireme/passes/memory.h"
#include "trireme/passes/partition.h"
#include "trireme/program/state_part.h"
#include "trireme/schedule/action_list.h"
#include "trireme/schedule/step_segment.h"

namespace trireme {

struct State {
  std::string name;
  TensorType type;  // of this rank's part
  Role role = Role::kNone;
  Attrs attrs;  // how it starts; see Value::attrs
  size_t offset = 0;
  StatePart part;
  // A state may be there several times: a stash for each microbatch under way, versions of weights, buffers
  // of messages. A segment that is run on slot s, and a message of it, sees slot s modulo `slots`.
  int slots = 1;
  // Where each slot lies, if not one behind the other: stashes whose lives do not meet share memory
  // (stash_places.h). The first is `offset`.
  std::vector<size_t> places = {};
  // Of Program::groups, where it rests in a file: all of it in one, or so many rows in each from that one on.
  int group = -1;
  int64_t group_rows = 0;  // 0: all

  size_t stride() const;             // bytes of a slot
  size_t place(int64_t slot) const;  // where a slot lies, as `offset`
  size_t row_bytes() const;          // of one row
  int groups() const;                // that it rests in
  bool rests_in(int number) const { return group >= 0 && number >= group && number < group + groups(); }
};

struct Segment {
  Graph graph;  // its name is the segment's name
  SegmentKind kind = SegmentKind::kForwardBackward;
  MemoryPlan memory;
  NamedLayouts layouts;  // of the graph's values on the mesh; empty where nothing is split

  bool takes(Role role) const;  // whether it has an input of this role
};

// States that rest in a file and are in memory together, for the segments that read or make any of them.
// Groups take a few staging slots in turn, places among the states' memory; what lies where within a group is
// the same in both.
struct FileGroup {
  std::string name;
  size_t offset = 0;       // of its slot, among the states
  size_t file_offset = 0;  // from the beginning of this rank's file
  size_t bytes = 0;
  int slot = 0;
  friend bool operator==(const FileGroup&, const FileGroup&) = default;
};

struct Program {
  Mesh mesh;  // no axes: one rank
  int rank = 0;
  std::vector<State> states;
  std::map<std::string, size_t, std::less<>> state_numbers;  // name -> place in `states`
  std::vector<FileGroup> groups;
  // Lasting states that this rank does not hold but other stages of a pipeline or servers do; whole types.
  std::vector<Value> remote_states;
  std::vector<Segment> segments;
  std::vector<ActionList> lists;
  Schedule::Sums sums = Schedule::Sums::kAnyOrder;  // over the ranks
  int64_t parameters = 0;  // elements of the whole model's, of which a rank may have some only
  size_t state_bytes = 0;
  size_t comm_from = 0;    // states from this offset on are worked on by collectives: they lie in comm memory
  size_t arena_bytes = 0;  // segments run one after the other and share one arena
  size_t comm_bytes = 0;   // likewise
  size_t input_bytes = 0;  // each segment has its own inputs

  const State* find_state(std::string_view name) const;  // null when there is none
  int segment(std::string_view name) const;              // −1 when there is none
  const ActionList* find_list(const When& when) const;   // the first such; null when there is none
  const ActionList& list(const When& when) const;        // an Error when there is none
  // The list that is followed in a step (counted from 1): `step`, or one that takes its place so early.
  const ActionList& step_list(int64_t step) const;
  int group(std::string_view name) const;  // −1 when there is none
  // Of what a graph sees of a state (ir/window.h): the group in which that rests, −1 for memory, and where it
  // lies among the states. It must have the state.
  int group_of(const Value& state) const;
  size_t offset_of(const Value& state) const;
  size_t file_bytes() const;
  size_t staging_bytes() const;  // of states' memory
  size_t peak_bytes() const { return state_bytes + arena_bytes + comm_bytes + input_bytes; }
};

// The bytes of each call that a node of the segment, a collective that sends, makes of the transport: several
// tensors that are neighbours in memory are one call, with what lies between them.
std::vector<double> call_bytes(const Segment& segment, int node);
// Whether all ranks give each other as much in a node that is an all_to_all; of others, true.
bool has_equal_parts(const Segment& segment, int node);
// What this rank sends in all collectives of the segment, in one of them, and in the collectives and messages
// of a list, in bytes, as the program promises.
double bytes_sent(const Segment& segment);
double bytes_sent(const Segment& segment, int node);
double bytes_sent(const Program& program, const ActionList& list);
// The same of a step, on the average: of the list `step`, and of those that are run every so many steps.
double bytes_sent_in_step(const Program& program);

// How much temporary memory the kernel of a node wants; asked of the device that will run the program.
using WorkspaceQuery = std::function<size_t(const Graph& graph, const Node& node)>;

// Of programs that no device runs: they are looked at, or timed.
inline const WorkspaceQuery kNoWorkspace = [](const Graph&, const Node&) { return size_t{0}; };

// By the name of a state; 1 where it is not named.
using StateSlots = std::map<std::string, int, std::less<>>;

using StateNames = std::set<std::string, std::less<>>;

// The groups of states that rest in files.
struct StatesInFile {
  std::string name;
  std::vector<std::string> states;
  int slot = 0;  // in memory
  // Of the states so many rows, from one on; what comes before rests in the groups before. 0: all.
  int64_t rows = 0, first_row = 0;
};
using FileStateNames = std::vector<StatesInFile>;

// Puts one rank's segments together. States come in the order in which graphs name them, those that
// collectives read or make, and those of messages in the lists, last: they lie in comm memory. States of the
// same name in different graphs are one state and must agree in type. A state that `parts` does not name is
// whole on this rank. Stashes that `slots` does not name are placed by when the lists use them.
Program build_program(std::vector<StepSegment> local, const WorkspaceQuery& workspace,
                      const StateParts& parts = {}, const StateSlots& slots = {},
                      std::vector<ActionList> lists = {}, const FileStateNames& in_files = {});
// Bytes of the states in memory; memory that stashes share counts once.
std::map<Role, size_t> state_bytes_by_role(const Program& program);
// The same program with other graphs in its segments, in their order, placed in memory anew.
Program with_graphs(const Program& program, std::vector<Graph> graphs, const WorkspaceQuery& workspace);

}  // namespace trireme
