// Starting, moving and ending operations; see engine.h. What failures say is in engine_failure.cc.
#include "trireme/comm/engine/engine.h"

#include <algorithm>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/engine/recorder.h"

namespace trireme::comm {
namespace {

// Streams of messages outside of collectives have this bit in the group's place. They are counted per ordered
// pair; matching goes by peer, so pairs need no streams of their own.
constexpr uint32_t kMessages = 1u << 31;

// How often a native operation is looked at before the rest of the transport is: it is done within a
// microsecond or takes long.
constexpr int kNativeLooks = 200;

// How often everything is moved before the time is looked at, while something moves.
constexpr uint32_t kRoundsPerClock = 1024;

uint64_t hash(std::span<const int64_t> counts, uint64_t seed) {
  for (const int64_t count : counts) {
    seed = (seed ^ static_cast<uint64_t>(count)) * 0x9e3779b97f4a7c15u;
    seed ^= seed >> 29;
  }
  return seed;
}

}  // namespace

Engine::Engine(Transport& transport, uint32_t number, std::vector<int> members, GroupOptions options)
    : transport_(transport), number_(number), members_(std::move(members)), options_(std::move(options)) {
  rank_ = static_cast<int>(std::ranges::find(members_, transport.rank()) - members_.begin());
  sent_.resize(members_.size());
  received_.resize(members_.size());
  native_ = transport.native(number, members_);
  if (options_.recorder != nullptr) options_.recorder->name_group(number, options_.name);
}

Engine::~Engine() {
  fail_live();  // there are none, but when an error has left handles behind
}

Operation& Engine::collective(const Call& call, void* data, CollectiveOptions options, void* output) {
  refuse_if_failed();
  RecipeKey key{call.pack(), options.segment_bytes};
  counts_.clear();
  // Equal parts are the same in any unit. The unit is no part of the call: where ranks have different ones,
  // the sizes of messages tell.
  if (options.unit != 1 && call.count / options.unit % size() == 0) options.unit = 1;
  if (options.unit != 1) {
    counts_.push_back(options.unit);
    key.more = hash(counts_, key.more);
  }
  // The call's algorithm is the one that was wished: what is found is what was chosen for that wish.
  RecipePage* page = book_.find(key, counts_);
  if (page == nullptr) page = &make_collective(key, call, options);
  auto* const bytes = static_cast<std::byte*>(data);
  return begin(*page, make_stream(number_, sequence_++), true, bytes,
               output != nullptr ? static_cast<std::byte*>(output) : bytes);
}

RecipePage& Engine::make_collective(RecipeKey key, Call call, const CollectiveOptions& options) {
  const bool offered = options.unit == 1 && offers_native(call);
  Choice choice{.algorithm = call.algorithm, .segment_bytes = kDefaultSegmentBytes};
  if (options_.chooser) {
    choice = options_.chooser(call, size(), offered);
    // Who names an algorithm gets it; the chooser says what it should cost and in which segments.
    if (call.algorithm != Algorithm::automatic) choice.algorithm = call.algorithm;
  } else if (call.algorithm == Algorithm::automatic) {
    choice = fixed_choice(call, offered, options_.hosts);
  }
  if (choice.algorithm == Algorithm::native && !offered) {
    throw_error("{}: {} has no way of its own to do this; choose another algorithm, or automatic",
                to_text(call), transport_.name());
  }
  if (choice.segment_bytes == 0) choice.segment_bytes = kDefaultSegmentBytes;
  call.algorithm = choice.algorithm;
  auto page = std::make_unique<RecipePage>();
  page->key = key;
  page->counts = counts_;
  page->native = choice.algorithm == Algorithm::native;
  if (page->native) {
    page->recipe.call = call;
    page->recipe.bytes = static_cast<size_t>(call.count) * size_of(call.dtype);
  } else {
    const Steps steps = make_steps(call.collective, call.algorithm, size(), call.root, options_.hosts);
    const size_t segment = options.segment_bytes != 0 ? options.segment_bytes : choice.segment_bytes;
    if (call.collective == Collective::all_to_all) {
      const std::vector<int64_t> counts(members_.size(), call.count / size());
      page->recipe = make_all_to_all(call, steps, counts, counts, rank_, members_, segment);
    } else {
      page->recipe = make_recipe(call, steps, rank_, members_, segment, options.unit);
    }
  }
  page->recipe.predicted_seconds = choice.predicted_seconds;
  return book_.add(std::move(page));
}

Operation& Engine::all_to_all(DType dtype, const void* input, std::span<const int64_t> send_counts,
                              void* output, std::span<const int64_t> receive_counts) {
  refuse_if_failed();
  // The counts differ between ranks, so they are no part of the call; the sizes of messages tell. Nor does
  // anybody know what others give to others, so that only pairs can exchange it.
  const Call call{.collective = Collective::all_to_all, .algorithm = Algorithm::naive, .dtype = dtype};
  const RecipeKey key{call.pack(), hash(receive_counts, hash(send_counts, 0))};
  counts_.assign(send_counts.begin(), send_counts.end());
  counts_.insert(counts_.end(), receive_counts.begin(), receive_counts.end());
  RecipePage* page = book_.find(key, counts_);
  if (page == nullptr) {
    auto made = std::make_unique<RecipePage>();
    made->key = key;
    made->counts = counts_;
    const Steps steps = make_steps(call.collective, call.algorithm, size());
    made->recipe =
        make_all_to_all(call, steps, send_counts, receive_counts, rank_, members_, kDefaultSegmentBytes);
    page = &book_.add(std::move(made));
  }
  auto* const from = const_cast<std::byte*>(static_cast<const std::byte*>(input));
  return begin(*page, make_stream(number_, sequence_++), true, from, static_cast<std::byte*>(output));
}

Operation& Engine::message(Step::Kind kind, DType dtype, int64_t count, void* data, int peer, int tag) {
  refuse_if_failed();
  const Call call{.collective = Collective::message, .dtype = dtype, .root = tag, .count = count};
  const RecipeKey key{call.pack(), static_cast<uint64_t>(peer) << 1 | (kind == Step::Kind::send)};
  RecipePage* page = book_.find(key);
  if (page == nullptr) {
    auto made = std::make_unique<RecipePage>();
    made->key = key;
    made->recipe = make_message(call, kind, members_[peer], kDefaultSegmentBytes);
    page = &book_.add(std::move(made));
  }
  uint32_t& number = kind == Step::Kind::send ? sent_[peer] : received_[peer];
  auto* const bytes = static_cast<std::byte*>(data);
  return begin(*page, make_stream(number_ | kMessages, number++), false, bytes, bytes);
}

Operation& Engine::begin(RecipePage& page, uint64_t stream, bool announced, std::byte* data,
                         std::byte* output) {
  if (page.idle == nullptr) {
    page.operations.push_back(page.native ? make_native_run(*this, page, *native_)
                                          : make_steps_run(*this, page, transport_));
    page.idle = page.operations.back().get();
  }
  Operation& operation = *page.idle;
  page.idle = operation.next;
  operation.label = {stream, page.call};
  operation.start_ticks = read_ticks();
  operation.state = Operation::State::running;
  enlist(operation);
  // A native start gives the others a word and returns: what is recorded then costs nothing, as the word is
  // on its way.
  if (!page.native) record(operation);
  try {
    if (announced) transport_.announce(operation.label);
    operation.start(data, output);
  } catch (const PeerError& error) {
    if (page.native) record(operation);
    if (lost(operation)) {
      let_go(operation);
      release(operation);
      throw;
    }
    fail(&operation, error);
  }
  if (page.native) record(operation);
  if (operation.complete()) finish(operation);
  return operation;
}

void Engine::record(Operation& operation) {
  if (options_.recorder == nullptr) return;
  operation.record = options_.recorder->started(operation.label.stream, operation.label.call,
                                                operation.recipe.bytes, operation.start_ticks);
}

void Engine::enlist(Operation& operation) {
  Operation*& first = transport_.live().first;
  operation.previous = nullptr;
  operation.next = first;
  if (first != nullptr) first->previous = &operation;
  first = &operation;
}

void Engine::unlink(Operation& operation) {
  (operation.previous != nullptr ? operation.previous->next : transport_.live().first) = operation.next;
  if (operation.next != nullptr) operation.next->previous = operation.previous;
}

void Engine::finish(Operation& operation) {
  unlink(operation);
  operation.end_ticks = read_ticks();
  operation.state = Operation::State::finished;
  if (options_.recorder != nullptr) options_.recorder->finished(operation.record, operation.end_ticks);
}

// Moves everything on the transport once, whichever group it belongs to.
bool Engine::move_all() {
  bool moved = transport_.progress();
  for (Operation* operation = transport_.live().first; operation != nullptr;) {
    Operation* const next = operation->next;
    if (operation->engine.progress(*operation)) {
      moved = true;
      ++operation->movements;
      if (operation->complete()) operation->engine.finish(*operation);
    }
    operation = next;
  }
  return moved;
}

// True when that was anything. What is under way with a rank that is lost, or becomes so now, fails alone.
bool Engine::progress(Operation& operation) {
  try {
    if (!lost(operation)) return operation.progress();
  } catch (const PeerError&) {
    if (!lost(operation)) throw;
  }
  let_go(operation);
  return true;
}

void Engine::wait(Operation& operation) {
  using State = Operation::State;
  if (operation.state == State::finished) return;
  if (operation.state == State::failed) refuse(operation);
  try {
    uint64_t movements = ~uint64_t{0};
    uint32_t rounds = 0;
    Clock::time_point deadline;
    while (true) {
      if (operation.page.native) {
        for (int look = 0; look < kNativeLooks; ++look) {
          if (operation.progress()) ++operation.movements;
          if (operation.complete()) return finish(operation);
          relax();
        }
      }
      const bool moved = move_all();
      if (operation.state == State::finished) return;
      if (operation.state == State::failed) break;
      // A transport that always has something to do, for others or for itself, must not hide that this has
      // not.
      if (moved && ++rounds % kRoundsPerClock != 0) continue;
      const Clock::time_point now = Clock::now();
      if (movements != operation.movements) {
        // It lives: a slow operation is not a dead one.
        movements = operation.movements;
        deadline = now + clock_duration(patience_seconds(operation));
      } else if (now >= deadline) {
        time_out(operation);
        continue;
      }
      if (!moved) transport_.idle(deadline);
    }
  } catch (const PeerError& error) {
    fail(&operation, error);
  }
  refuse(operation);
}

bool Engine::done(Operation& operation) {
  if (operation.state == Operation::State::running) {
    try {
      move_all();
    } catch (const PeerError& error) {
      fail(&operation, error);
    }
  }
  if (operation.state == Operation::State::failed) refuse(operation);
  return operation.state == Operation::State::finished;
}

void Engine::progress() {
  refuse_if_failed();
  try {
    move_all();
  } catch (const PeerError& error) {
    fail(nullptr, error);
  }
}

void Engine::release(Operation& operation) {
  operation.state = Operation::State::idle;
  operation.next = operation.page.idle;
  operation.page.idle = &operation;
}

OperationReport Engine::report(const Operation& operation) const {
  const uint64_t ticks = operation.state == Operation::State::finished
                             ? operation.end_ticks - operation.start_ticks
                             : read_ticks() - operation.start_ticks;
  return {.call = operation.recipe.call,
          .sequence = static_cast<uint32_t>(operation.label.stream),
          .segment_bytes = operation.recipe.segment_bytes,
          .predicted_seconds = operation.recipe.predicted_seconds,
          .seconds = rate_.seconds(ticks)};
}

}  // namespace trireme::comm
