// Two levels. Stashes of the same part of the model form a frame: within it they are placed by the order of
// nodes, so that what the backward part leaves for the gradients of weights takes the memory of activations
// that it has read. Frames are then placed by the order of actions. Where the parts of a frame live too
// differently for that (recomputed blocks keep little before their backward part and much behind it), each
// kind of life has its own frame; whichever takes less is taken.
#include "trireme/program/stash_places.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/passes/first_fit.h"

namespace trireme {
namespace {

using Life = FirstFit::Moments;
// By slot, ascending.
using Lives = std::vector<std::pair<int, Life>>;

// Of a slot; where there is none yet, this one.
Life& life_of(Lives& lives, int slot, const Life& first) {
  const auto at = std::ranges::lower_bound(lives, slot, {}, &std::pair<int, Life>::first);
  return at != lives.end() && at->first == slot ? at->second : lives.insert(at, {slot, first})->second;
}

size_t stash_bytes(const Value& value) {
  return (value.type.bytes() + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

// What a segment does with a stash, in numbers of nodes.
struct StashUse {
  int begin = -1;           // the node that makes it; −1: it is there before
  int end = 0;              // the last that reads it; one behind all nodes: it must outlive them
  ValueId over = kNoValue;  // a stash of the same size that the maker may overwrite
};

using StashUses = std::map<ValueId, StashUse>;

// The value that has the memory of a view.
ValueId source_of(const Graph& graph, ValueId value) {
  for (int maker = graph.values[value].node;
       maker >= 0 && graph.nodes[maker].op->memory == OpRecord::Memory::kShared;
       maker = graph.values[value].node)
    value = graph.nodes[maker].inputs[0];
  return value;
}

StashUses uses_of(const Graph& graph) {
  StashUses uses;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == Value::Kind::kState && graph.values[v].role == Role::kStash)
      uses[static_cast<ValueId>(v)];
  }
  if (uses.empty()) return uses;
  const int behind = static_cast<int>(graph.nodes.size());
  const auto read = [&](ValueId value, int when) {
    const auto found = uses.find(source_of(graph, value));
    if (found != uses.end()) found->second.end = std::max(found->second.end, when);
  };
  for (int n = 0; n < behind; ++n) {
    for (ValueId input : graph.nodes[n].inputs) read(input, n);
  }
  for (const Output& output : graph.outputs) read(output.value, behind);
  for (const Update& update : graph.updates) {
    const auto found = uses.find(update.state);
    read(update.value, graph.values[source_of(graph, update.value)].node < 0 ? behind : 0);
    if (found == uses.end()) continue;
    StashUse& use = found->second;
    const ValueId made = source_of(graph, update.value);
    use.begin = std::max(0, graph.values[made].node);
    use.end = behind;
    if (graph.values[made].node < 0) continue;
    const Node& maker = graph.nodes[use.begin];
    for (const InPlace& pair : maker.op->in_place) {
      if (pair.output >= std::ssize(maker.outputs) || maker.outputs[pair.output] != made ||
          pair.input >= std::ssize(maker.inputs))
        continue;
      const ValueId input = source_of(graph, maker.inputs[pair.input]);
      if (uses.contains(input) && graph.type(input).bytes() == graph.type(made).bytes()) use.over = input;
    }
  }
  return uses;
}

// "0.backward" of "first.0.backward" and of "next.0.backward".
std::string_view piece_of_run(std::string_view segment) {
  return segment.substr(std::min(segment.size(), segment.find('.')));
}

// "stash.h.3" of "stash.h.3/attn/matmul".
std::string_view part_of_model(std::string_view stash) {
  return stash.substr(0, stash.find('/'));
}

struct Stash {
  const Value* value;
  bool in_comm_memory;
  Lives lives;             // by slot, in numbers of actions
  std::set<int> segments;  // that make or read it
  bool is_sent = false;
};

// A segment that makes or reads stashes.
struct StashRun {
  const Graph* graph;
  StashUses uses;
  std::set<std::string_view> parts;  // of the model, of which they are
};

// Stashes that are placed as one.
struct Frame {
  struct Part {
    int stash;
    size_t offset;
  };
  std::vector<Part> parts;
  size_t bytes = 0;
  bool in_comm_memory = false;
  // A send frees its memory when the other rank asks for the message. A rank that waited for that before it
  // ran something else could wait for ever, so what is sent shares its memory with nothing else.
  bool is_sent = false;
  Lives lives;

  void join(const Lives& others) {
    for (const auto& [slot, life] : others) {
      Life& known = life_of(lives, slot, life);
      known = {std::min(known.begin, life.begin), std::max(known.end, life.end)};
    }
  }
  // Behind the parts that are there.
  void append(const Frame& other) {
    for (const Part& part : other.parts) parts.push_back({part.stash, bytes + part.offset});
    bytes += other.bytes;
    join(other.lives);
  }
};

// Buffers of one size. Lives that overlap get different buffers.
class Buffers {
 public:
  // Returns the number of the first buffer that is free during all of these lives.
  size_t place(const std::vector<Life>& lives) {
    const auto is_free = [&](const Ends& ends) {
      return std::ranges::none_of(lives, [&](const Life& life) {
        const auto next = ends.lower_bound(life.begin);  // the first to end behind its beginning
        return next != ends.end() && next->second <= life.end;
      });
    };
    const size_t number = std::ranges::find_if(buffers_, is_free) - buffers_.begin();
    if (number == buffers_.size()) buffers_.emplace_back();
    for (const Life& life : lives) buffers_[number].emplace(life.end, life.begin);
    return number;
  }
  size_t count() const { return buffers_.size(); }

 private:
  using Ends = std::map<int, int>;  // of lives, with their beginnings
  std::vector<Ends> buffers_;
};

bool same_lives(const Lives& a, const Lives& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.begin == other.second.begin &&
           one.second.end == other.second.end;
  });
}

// Of one list.
class ListStashes {
 public:
  ListStashes(const std::vector<StepSegment>& segments, const ActionList& list,
              const StateNames& in_comm_memory, const std::set<std::string_view>& known)
      : list_(list) {
    for (const StepSegment& segment : segments) {
      graphs_.emplace(segment.graph.name, &segment.graph);
      for (const Value& value : segment.graph.values) {
        if (value.kind == Value::Kind::kState && value.role == Role::kStash && !known.contains(value.name) &&
            numbers_.emplace(value.name, stashes_.size()).second)
          stashes_.push_back({&value, in_comm_memory.contains(value.name), {}, {}, false});
      }
    }
    find_lives();
  }

  struct Result {
    int period = 0;
    std::map<int, std::vector<size_t>> places;  // by stash
    size_t own_bytes = 0, comm_bytes = 0;
    size_t bytes() const { return own_bytes + comm_bytes; }
  };

  Result run() {
    if (slots_ == 0) return {};
    const std::vector<Frame> apart = frames_by_life();
    const Result first = best(apart);
    const std::optional<std::vector<Frame>> whole = frames_by_part();
    if (!whole) return first;
    Result second = best(*whole);
    return second.bytes() < first.bytes() ? second : first;
  }
  const Value& value(int stash) const { return *stashes_[stash].value; }
  bool in_comm_memory(int stash) const { return stashes_[stash].in_comm_memory; }

 private:
  void touch(std::string_view name, int slot, int begin, int end) {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return;
    Life& life = life_of(stashes_[found->second].lives, slot, {begin, end});
    life.end = std::max(life.end, end);
    slots_ = std::max(slots_, slot + 1);
  }

  void find_lives() {
    const int actions = static_cast<int>(list_.actions.size());
    // A message takes its time: what was sent stays for a run longer.
    std::vector<int> next_run(actions, actions - 1);
    for (int t = actions - 1, next = actions - 1; t >= 0; --t) {
      next_run[t] = next;
      if (list_.actions[t].kind == Action::Kind::kRun) next = t;
    }
    for (int t = 0; t < actions; ++t) {
      const Action& action = list_.actions[t];
      if (action.kind == Action::Kind::kSend && numbers_.contains(action.what))
        stashes_[numbers_.at(action.what)].is_sent = true;
      if (action.is_message())
        touch(action.what, action.slot, t, action.kind == Action::Kind::kSend ? next_run[t] : t);
      const auto graph = graphs_.find(action.what);
      if (action.kind != Action::Kind::kRun || graph == graphs_.end()) continue;
      const StashRun& run = run_of(*graph->second);
      if (run.uses.empty()) continue;
      runs_[action.slot].push_back(&run);
      for (const auto& [state, use] : run.uses) touch(graph->second->values[state].name, action.slot, t, t);
    }
  }

  const StashRun& run_of(const Graph& graph) {
    const auto [found, is_new] = known_runs_.try_emplace(&graph);
    StashRun& run = found->second;
    if (!is_new) return run;
    run.graph = &graph;
    run.uses = uses_of(graph);
    for (const auto& [state, use] : run.uses) {
      const auto number = numbers_.find(graph.values[state].name);
      if (number == numbers_.end()) continue;
      stashes_[number->second].segments.insert(static_cast<int>(known_runs_.size()) - 1);
      if (!stashes_[number->second].in_comm_memory) run.parts.insert(part_of_model(graph.values[state].name));
    }
    return run;
  }

  Frame frame_of(int stash) const {
    const Stash& one = stashes_[stash];
    return {{{stash, 0}}, stash_bytes(*one.value), one.in_comm_memory, one.is_sent, one.lives};
  }

  // Of stashes of a part of the model with the same life one frame; of messages, which lie in comm memory,
  // one each.
  std::vector<Frame> frames_by_life() const {
    std::vector<Frame> frames;
    std::map<std::string_view, std::vector<size_t>> of_part;  // frames
    for (size_t s = 0; s < stashes_.size(); ++s) {
      if (stashes_[s].lives.empty()) continue;
      const Frame one = frame_of(static_cast<int>(s));
      std::vector<size_t>& fellows = of_part[part_of_model(stashes_[s].value->name)];
      const auto fellow = std::ranges::find_if(fellows, [&](size_t number) {
        return !one.in_comm_memory && !frames[number].in_comm_memory &&
               same_lives(frames[number].lives, one.lives);
      });
      if (fellow != fellows.end()) {
        frames[*fellow].append(one);
      } else {
        fellows.push_back(frames.size());
        frames.push_back(one);
      }
    }
    return frames;
  }

  // Of all stashes of a part of the model one frame. Nothing where microbatches take their turns differently,
  // or where that gains nothing: all live alike.
  std::optional<std::vector<Frame>> frames_by_part() const {
    std::map<std::string_view, std::vector<int>> parts;
    std::vector<Frame> frames;
    for (size_t s = 0; s < stashes_.size(); ++s) {
      if (stashes_[s].lives.empty()) continue;
      if (stashes_[s].in_comm_memory)
        frames.push_back(frame_of(static_cast<int>(s)));
      else
        parts[part_of_model(stashes_[s].value->name)].push_back(static_cast<int>(s));
    }
    bool gains = false;
    for (const auto& [name, stashes] : parts) {
      const std::optional<Frame> frame = whole_frame(name, stashes);
      if (!frame) return std::nullopt;
      size_t sum = 0;
      for (int s : stashes) sum += stash_bytes(*stashes_[s].value);
      gains |= frame->bytes < sum;
      frames.push_back(*frame);
    }
    return gains ? std::optional(frames) : std::nullopt;
  }

  // The runs of a slot that have to do with a part of the model.
  std::vector<const StashRun*> runs_with(int slot, std::string_view part) const {
    std::vector<const StashRun*> result;
    for (const StashRun* run : runs_.at(slot)) {
      if (run->parts.contains(part)) result.push_back(run);
    }
    return result;
  }

  std::optional<Frame> whole_frame(std::string_view part, const std::vector<int>& stashes) const {
    std::set<int> slots;
    for (int s : stashes) {
      for (const auto& [slot, life] : stashes_[s].lives) slots.insert(slot);
    }
    // The first microbatch may have pieces of its own; the others have the same.
    const std::vector<const StashRun*> runs = runs_with(*slots.rbegin(), part);
    const auto piece = [](const StashRun* run) { return piece_of_run(run->graph->name); };
    for (int slot : slots) {
      if (!std::ranges::equal(runs_with(slot, part), runs, {}, piece, piece)) return std::nullopt;
    }
    return placed(stashes, runs);
  }

  // In a frame, by the order of the nodes of these runs.
  Frame placed(const std::vector<int>& stashes, const std::vector<const StashRun*>& runs) const {
    struct Block {
      Life life{std::numeric_limits<int>::max(), -1};
      int over = -1;
      size_t offset = 0;
    };
    std::map<int, Block> blocks;
    int begin = 0;
    for (const StashRun* run : runs) {
      for (const auto& [state, use] : run->uses) {
        const auto number = numbers_.find(run->graph->values[state].name);
        if (number == numbers_.end() ||
            !std::ranges::binary_search(stashes, static_cast<int>(number->second)))
          continue;
        Block& block = blocks[static_cast<int>(number->second)];
        block.life.begin = std::min(block.life.begin, begin + std::max(0, use.begin));
        block.life.end = std::max(block.life.end, begin + use.end);
        if (use.over == kNoValue) continue;
        const auto over = numbers_.find(run->graph->values[use.over].name);
        if (over != numbers_.end() && std::ranges::binary_search(stashes, static_cast<int>(over->second)))
          block.over = static_cast<int>(over->second);
      }
      begin += static_cast<int>(run->graph->nodes.size()) + 1;
    }
    // A result in the place of the input that its node reads for the last time; of several, one.
    std::map<int, int> successor;
    for (auto& [stash, block] : blocks) {
      const bool fits = block.over >= 0 && blocks.contains(block.over) &&
                        blocks.at(block.over).life.end == block.life.begin &&
                        successor.emplace(block.over, stash).second;
      if (!fits) block.over = -1;
    }
    struct Chain {
      std::vector<int> stashes;
      Life life;
      size_t bytes;
    };
    std::vector<Chain> chains;
    for (const auto& [stash, block] : blocks) {
      if (block.over >= 0) continue;
      Chain chain{{stash}, block.life, stash_bytes(*stashes_[stash].value)};
      for (auto next = successor.find(stash); next != successor.end(); next = successor.find(next->second)) {
        chain.stashes.push_back(next->second);
        chain.life.end = blocks.at(next->second).life.end;
      }
      chains.push_back(std::move(chain));
    }
    std::ranges::stable_sort(chains, std::ranges::greater(), &Chain::bytes);
    FirstFit fit(begin);
    Frame frame;
    for (const Chain& chain : chains) {
      const size_t offset = fit.place(chain.life.begin, chain.life.end, chain.bytes);
      for (int stash : chain.stashes) {
        frame.parts.push_back({stash, offset});
        frame.join(stashes_[stash].lives);
      }
    }
    frame.bytes = fit.total_bytes();
    return frame;
  }

  // The largest number of bytes that are live at a time, of the frames that `counts` accepts.
  template <typename Counts>
  size_t most_bytes(const std::vector<Frame>& frames, const Counts& counts) const {
    std::vector<int64_t> change(list_.actions.size() + 1);
    for (const Frame& frame : frames) {
      if (!counts(frame)) continue;
      for (const auto& [slot, life] : frame.lives) {
        change[life.begin] += static_cast<int64_t>(frame.bytes);
        change[life.end + 1] -= static_cast<int64_t>(frame.bytes);
      }
    }
    int64_t now = 0, most = 0;
    for (int64_t by : change) most = std::max(most, now += by);
    return static_cast<size_t>(most);
  }
  // A lower bound for all frames: each kind of memory by itself.
  size_t least_bytes(const std::vector<Frame>& frames) const {
    size_t bytes = 0;
    for (const bool in_comm_memory : {false, true})
      bytes += most_bytes(
          frames, [&](const Frame& one) { return !one.is_sent && one.in_comm_memory == in_comm_memory; });
    for (const Frame& frame : frames) {
      if (frame.is_sent) bytes += most_bytes(frames, [&](const Frame& one) { return &one == &frame; });
    }
    return bytes;
  }

  // Whether microbatches whose numbers differ by `period` can use the same place, in every frame.
  static bool is_period(const std::vector<Frame>& frames, int period) {
    for (const Frame& frame : frames) {
      std::vector<std::vector<Life>> lives(static_cast<size_t>(period));
      for (const auto& [slot, life] : frame.lives) lives[slot % period].push_back(life);
      for (std::vector<Life>& of_place : lives) {
        std::ranges::sort(of_place, {}, &Life::begin);
        for (size_t i = 1; i < of_place.size(); ++i) {
          if (of_place[i].begin <= of_place[i - 1].end) return false;
        }
      }
    }
    return true;
  }

  static std::vector<Frame> joined(const std::vector<Frame>& frames) {
    std::vector<Frame> result;
    for (const Frame& frame : frames) {
      const auto fellow = std::ranges::find_if(result, [&](const Frame& one) {
        return !one.is_sent && !frame.is_sent && one.in_comm_memory == frame.in_comm_memory &&
               same_lives(one.lives, frame.lives);
      });
      if (fellow == result.end())
        result.push_back(frame);
      else
        fellow->append(frame);
    }
    return result;
  }

  // Tries the shortest period and multiples of it, with frames of equal lives joined and apart, until the
  // result is within 1 % of what is live at a time.
  Result best(const std::vector<Frame>& frames) const {
    const std::vector<Frame> whole = joined(frames);
    const size_t least = least_bytes(whole);
    int shortest = 1;
    while (!is_period(whole, shortest)) ++shortest;
    std::vector<int> periods;
    for (int period = shortest; period < slots_ && period <= kMostStashPlaces; period *= 2)
      periods.push_back(period);
    if (slots_ <= kMostStashPlaces) periods.push_back(slots_);
    if (periods.empty()) periods.push_back(shortest);
    Result best;
    for (int period : periods) {
      if (!is_period(whole, period)) continue;
      for (const auto* tried : {&whole, &frames}) {
        Result result = try_period(*tried, period);
        if (best.period == 0 || result.bytes() < best.bytes()) best = std::move(result);
        if (best.bytes() <= least + least / 100) return best;
        if (whole.size() == frames.size()) break;
      }
    }
    return best;
  }

  Result try_period(const std::vector<Frame>& frames, int period) const {
    struct Item {
      const Frame* frame;
      int place;
      std::vector<Life> lives;
    };
    std::vector<Item> items;
    for (const Frame& frame : frames) {
      std::vector<std::vector<Life>> lives(period);
      for (const auto& [slot, life] : frame.lives) lives[slot % period].push_back(life);
      // A segment's memory is planned with the first places of its states, even if it never runs on them, so
      // its frames must not overlap there either.
      std::set<int> segments;
      for (const Frame::Part& part : frame.parts)
        segments.insert(stashes_[part.stash].segments.begin(), stashes_[part.stash].segments.end());
      for (int segment : segments) {
        const int moment = static_cast<int>(list_.actions.size()) + segment;
        lives[0].push_back({moment, moment});
      }
      for (int place = 0; place < period; ++place) {
        if (!lives[place].empty()) items.push_back({&frame, place, std::move(lives[place])});
      }
    }
    std::ranges::stable_sort(items, [](const Item& a, const Item& b) {
      if (a.frame->bytes != b.frame->bytes) return a.frame->bytes > b.frame->bytes;
      return a.lives[0].begin < b.lives[0].begin;
    });
    const int moments = static_cast<int>(list_.actions.size() + known_runs_.size());
    FirstFit own(moments), comm(moments);
    Result result{.period = period, .places = {}};
    std::map<const Frame*, Buffers> sent;
    for (const Item& item : items) {
      const size_t offset =
          item.frame->is_sent
              ? sent[item.frame].place(item.lives) * item.frame->bytes
              : (item.frame->in_comm_memory ? comm : own).place(item.lives, item.frame->bytes);
      for (const Frame::Part& part : item.frame->parts) {
        std::vector<size_t>& places = result.places[part.stash];
        places.resize(period, offset + part.offset);
        places[item.place] = offset + part.offset;
      }
    }
    result.own_bytes = own.total_bytes();
    result.comm_bytes = comm.total_bytes();
    for (const Frame& frame : frames) {
      const auto buffers = sent.find(&frame);
      if (buffers == sent.end()) continue;
      for (size_t& place : result.places.at(frame.parts[0].stash)) place += result.comm_bytes;
      result.comm_bytes += buffers->second.count() * frame.bytes;
    }
    return result;
  }

  const ActionList& list_;
  std::map<std::string_view, const Graph*> graphs_;
  std::map<std::string_view, size_t> numbers_;  // of stashes
  std::vector<Stash> stashes_;
  std::map<const Graph*, StashRun> known_runs_;
  std::map<int, std::vector<const StashRun*>> runs_;  // by slot, in their order
  int slots_ = 0;
};

}  // namespace

StashPools place_stashes(const std::vector<StepSegment>& segments, const std::vector<ActionList>& lists,
                         const StateNames& in_comm_memory, const StateSlots& own_slots) {
  StashPools pools;
  std::set<std::string_view> known;
  for (const auto& [name, slots] : own_slots) known.insert(name);
  for (const ActionList& list : lists) {
    ListStashes stashes(segments, list, in_comm_memory, known);
    ListStashes::Result result = stashes.run();
    for (auto& [stash, places] : result.places) {
      known.insert(stashes.value(stash).name);
      StashPool& pool = stashes.in_comm_memory(stash) ? pools.comm : pools.own;
      for (size_t place : places)
        pool.bytes = std::max(pool.bytes, place + stash_bytes(stashes.value(stash)));
      pool.stashes.push_back({&stashes.value(stash), std::move(places)});
    }
  }
  return pools;
}

}  // namespace trireme
