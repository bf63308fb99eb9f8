// Parsing of programs; the format is described in text.h. The text may come from anywhere.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/line_reader.h"
#include "trireme/ir/text.h"
#include "trireme/program/space_name.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // so that a few of them can be added up
constexpr int64_t kMostRows = int64_t{1} << 40;   // and counts of other things

int64_t within(int64_t value, int64_t least, int64_t most, std::string_view name) {
  if (value < least || value > most) throw_error("'{}' is {}; {} to {} expected", name, value, least, most);
  return value;
}

size_t bytes_at(const Attrs& attrs, std::string_view name) {
  return static_cast<size_t>(within(attrs.integer(name), 0, kMostBytes, name));
}

int64_t rows_at(const Attrs& attrs, std::string_view name) {
  return within(attrs.integer(name), 0, kMostRows, name);
}

// Also of what the verifier refuses, with a better reason: below 0.
int small(int64_t value, std::string_view name) {
  return static_cast<int>(within(value, -1, 1 << 20, name));
}

std::vector<std::string> words(const Attrs& attrs, std::string_view name) {
  return attrs.has(name) ? split(attrs.text(name), ' ') : std::vector<std::string>();
}

class ProgramReader {
 public:
  explicit ProgramReader(const OpTable& ops) : ops_(ops) {}

  void line(const std::string& text, int number) {
    LineReader reader(text);
    if (in_graph_ && !begins_behind_graph(reader)) {
      graph_text_ += text + "\n";
      return;
    }
    if (in_graph_) end_graph();
    if (reader.done()) return;
    statement(reader, text, number);
    reader.expect_end();
  }

  Program take() {
    if (in_graph_) throw_error("the text ends within a graph; 'sizes' expected");
    return std::move(program_);
  }

 private:
  static bool begins_behind_graph(LineReader& reader) {
    LineReader copy = reader;
    return copy.take("place ") || copy.take("workspace ") || copy.take("copy ") || copy.take("sizes ");
  }

  void statement(LineReader& reader, const std::string& text, int number) {
    if (reader.take("program")) return;
    if (reader.take("mesh ")) return read_mesh(reader, text);
    if (reader.take("rank ")) return void(program_.rank = small(reader.integer(), "rank"));
    if (reader.take("sums in_pairs")) return void(program_.sums = Schedule::Sums::kInPairs);
    if (reader.take("parameters ")) return void(program_.parameters = reader.integer());
    if (reader.take("memory ")) return read_memory(reader);
    if (reader.take("state ")) return read_state(reader);
    if (reader.take("group ")) return read_group(reader);
    if (reader.take("remote ")) return void(program_.remote_states.push_back(read_declaration(reader)));
    if (reader.take("at ")) return read_place_of_state(reader);
    if (reader.take("segment ")) return begin_segment(reader, number);
    if (reader.take("place ")) return read_place(reader);
    if (reader.take("workspace ")) return read_workspace(reader);
    if (reader.take("copy ")) return read_copy(reader);
    if (reader.take("sizes ")) return read_sizes(reader);
    if (reader.take("list ")) return begin_list(reader);
    read_action(reader);
  }

  void read_mesh(LineReader& reader, const std::string& text) {
    std::string axes = text.substr(text.find("mesh ") + 5);
    axes = axes.substr(0, axes.find('#'));
    program_.mesh = parse_mesh(axes);
    while (!reader.done()) {  // parse_mesh has read it
      reader.name();
      reader.expect(":");
      reader.integer();
    }
  }

  void read_memory(LineReader& reader) {
    const Attrs attrs = reader.attrs();
    program_.state_bytes = bytes_at(attrs, "states");
    program_.comm_from = bytes_at(attrs, "comm_from");
    program_.arena_bytes = bytes_at(attrs, "arena");
    program_.comm_bytes = bytes_at(attrs, "comm");
    program_.input_bytes = bytes_at(attrs, "inputs");
  }

  static Value read_declaration(LineReader& reader) {
    Value value{.kind = Value::Kind::kState};
    value.name = reader.value_name();
    reader.expect(":");
    value.type = reader.type();
    const std::string word = reader.word();
    const std::optional<Role> role = parse_role(word);
    if (!role) throw_error("'{}' is no role of a state", word);
    value.role = *role;
    return value;
  }

  void read_state(LineReader& reader) {
    const Value value = read_declaration(reader);
    State state{.name = value.name, .type = value.type, .role = value.role};
    state.attrs = reader.attrs();
    if (!program_.state_numbers.emplace(state.name, program_.states.size()).second)
      throw_error("two states are called %{}", state.name);
    program_.states.push_back(std::move(state));
  }

  void read_place_of_state(LineReader& reader) {
    if (program_.states.empty()) throw_error("'at' stands behind no state");
    State& state = program_.states.back();
    const Attrs attrs = reader.attrs();
    state.offset = bytes_at(attrs, "offset");
    state.slots = small(attrs.integer("slots"), "slots");
    if (attrs.has("places")) {
      for (int64_t place : attrs.integers("places"))
        state.places.push_back(static_cast<size_t>(within(place, 0, kMostBytes, "places")));
      if (std::ssize(state.places) != state.slots)
        throw_error("{} places are given; one for each of {} slots expected", state.places.size(),
                    state.slots);
    }
    state.part = {};
    const std::vector<int64_t>& whole = attrs.integers("whole");
    if (whole.size() > Shape::kMaxDims)
      throw_error("a tensor has at most {} dims, {} are given", Shape::kMaxDims, whole.size());
    for (int64_t extent : whole) state.part.whole.push_back(within(extent, 0, kMostBytes, "whole"));
    if (!has_possible_size(state.part.whole))
      throw_error("{} has more than 2^48 elements", to_string(state.part.whole));
    for (int d = 0; d < state.part.whole.rank(); ++d) {
      const std::vector<int64_t>& numbers = attrs.integers(fmt::format("dim{}", d));
      if (numbers.size() % 2 != 0) throw_error("dim{} has {} numbers; pairs expected", d, numbers.size());
      Pieces& pieces = state.part.pieces.emplace_back();
      for (size_t i = 0; i < numbers.size(); i += 2) {
        const int64_t begin = within(numbers[i], 0, state.part.whole[d], "the begin of a piece");
        const int64_t size = within(numbers[i + 1], 0, state.part.whole[d] - begin, "the size of a piece");
        pieces.push_back({begin, size});
      }
    }
    state.part.axes = words(attrs, "axes");
    state.part.sums = words(attrs, "sums");
    if (attrs.has("group")) state.group = small(attrs.integer("group"), "group");
    state.group_rows = within(attrs.integer("group_rows", 0), -1, kMostRows, "group_rows");
    if (attrs.has("stages")) {
      for (int64_t stage : attrs.integers("stages")) state.part.stages.push_back(small(stage, "stages"));
    }
  }

  void read_group(LineReader& reader) {
    FileGroup& group = program_.groups.emplace_back();
    group.name = reader.name();
    const Attrs attrs = reader.attrs();
    group.offset = bytes_at(attrs, "offset");
    group.file_offset = bytes_at(attrs, "file_offset");
    group.bytes = bytes_at(attrs, "bytes");
    group.slot = small(attrs.integer("slot"), "slot");
  }

  void begin_segment(LineReader& reader, int number) {
    Segment& segment = program_.segments.emplace_back();
    segment.graph.name = reader.name();
    const std::string word = reader.name();
    const std::optional<SegmentKind> kind = parse_segment_kind(word);
    if (!kind) throw_error("'{}' is no kind of a segment", word);
    segment.kind = *kind;
    in_graph_ = true;
    // So that the graph's own complaints have the right lines.
    graph_text_.assign(static_cast<size_t>(number), '\n');
  }

  void end_graph() {
    Segment& segment = program_.segments.back();
    const std::string name = segment.graph.name;
    in_graph_ = false;
    segment.graph = parse_graph(graph_text_, ops_);
    if (segment.graph.name != name) throw_error("the segment {} has the graph {}", name, segment.graph.name);
    ids_.clear();
    for (size_t v = 0; v < segment.graph.values.size(); ++v)
      ids_.emplace(segment.graph.values[v].name, static_cast<ValueId>(v));
    MemoryPlan& memory = segment.memory;
    memory.values.resize(segment.graph.values.size());
    memory.workspace.resize(segment.graph.nodes.size());
    memory.workspace_bytes.resize(segment.graph.nodes.size());
    memory.runs.resize(segment.graph.nodes.size());
    for (size_t n = 0; n < segment.graph.nodes.size(); ++n) {
      const Attrs& attrs = segment.graph.nodes[n].attrs;
      if (attrs.has("runs")) memory.runs[n] = attrs.integers("runs");
    }
  }

  MemoryPlan& memory() {
    if (program_.segments.empty()) throw_error("this stands in no segment");
    return program_.segments.back().memory;
  }
  ValueId value(LineReader& reader) const {
    const std::string name = reader.value_name();
    const auto found = ids_.find(name);
    if (found == ids_.end()) throw_error("the segment has no value %{}", name);
    return found->second;
  }
  static size_t offset(LineReader& reader) {
    return static_cast<size_t>(within(reader.integer(), 0, kMostBytes, "offset"));
  }

  void read_place(LineReader& reader) {
    MemoryPlan& plan = memory();
    const ValueId id = value(reader);
    const std::string word = reader.name();
    const std::optional<Space> space = parse_space(word);
    if (!space) throw_error("'{}' is no place; arena, comm, states or inputs expected", word);
    plan.values[id] = {*space, offset(reader)};
  }

  void read_workspace(LineReader& reader) {
    MemoryPlan& plan = memory();
    const size_t node = offset(reader);
    if (node >= plan.workspace.size()) throw_error("the segment has no node {}", node);
    plan.workspace[node] = offset(reader);
    plan.workspace_bytes[node] = offset(reader);
  }

  void read_copy(LineReader& reader) {
    const ValueId state = value(reader);
    reader.expect("<-");
    memory().copies.push_back({state, value(reader)});
  }

  void read_sizes(LineReader& reader) {
    const Attrs attrs = reader.attrs();
    memory().arena_bytes = bytes_at(attrs, "arena");
    memory().comm_bytes = bytes_at(attrs, "comm");
    memory().input_bytes = bytes_at(attrs, "inputs");
  }

  void begin_list(LineReader& reader) {
    ActionList& list = program_.lists.emplace_back();
    list.name = reader.name();
    const Attrs attrs = reader.attrs();
    list.when = parse_when(attrs.text("when"));
    list.rows = rows_at(attrs, "rows");
    list.own = {rows_at(attrs, "begin"), rows_at(attrs, "size")};
    list.microbatches = rows_at(attrs, "microbatches");
  }

  void read_action(LineReader& reader) {
    Action action;
    if (reader.take("run ")) {
      action.what = reader.name();
      action.microbatch = within(reader.integer(), -1, kMostRows, "microbatch");
    } else if (const bool sends = reader.take("send "); sends || reader.take("receive ")) {
      action.kind = sends ? Action::Kind::kSend : Action::Kind::kReceive;
      action.what = reader.value_name();
      action.peer = small(reader.integer(), "rank");
    } else if (const bool begins = reader.take("reduce "); begins || reader.take("await ")) {
      action.kind = begins ? Action::Kind::kReduce : Action::Kind::kAwait;
      action.what = reader.value_name();
    } else if (const bool fetches = reader.take("fetch "); fetches || reader.take("store ")) {
      action.kind = fetches ? Action::Kind::kFetch : Action::Kind::kStore;
      action.what = reader.name();
    } else {
      throw_error("no statement of a program: a state, segment, list or action expected");
    }
    if (!reader.done()) action.slot = small(reader.integer(), "slot");
    if (program_.lists.empty()) throw_error("an action stands in no list");
    program_.lists.back().actions.push_back(std::move(action));
  }

  const OpTable& ops_;
  Program program_;
  bool in_graph_ = false;
  std::string graph_text_;
  std::map<std::string, ValueId, std::less<>> ids_;  // of the last segment
};

}  // namespace

Program parse_program(std::string_view text, const OpTable& ops) {
  ProgramReader reader(ops);
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    try {
      reader.line(line, number);
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.starts_with("line ")) throw;  // of a graph
      throw_error("line {}: {}", number, what);
    }
  }
  return reader.take();
}

}  // namespace trireme
