// Steps become moves with places, lanes and dependencies; see recipe.h.
#include "trireme/comm/engine/recipe.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/comm/collective/step_order.h"

namespace trireme::comm {
namespace {

// Adds moves one by one, in list order, to the lane that they belong to. `step` is the move in chunks, from
// which its order among the others follows.
class Builder {
 public:
  Builder(Recipe& recipe, int chunks) : recipe_(recipe), order_(chunks) {}

  void add(Move move, const Step& step, int peer) {
    const auto index = static_cast<uint32_t>(recipe_.moves.size());
    move.first_before = static_cast<uint32_t>(recipe_.before.size());
    order_.add(step, index, recipe_.before);
    move.end_before = static_cast<uint32_t>(recipe_.before.size());
    if (move.kind == Step::Kind::local) {
      recipe_.locals.push_back(index);
    } else {
      Lane& lane = lane_of(move.kind, peer);
      lane.moves.push_back(index);
      const bool has_to_wait = move.end_before > move.first_before;
      lane.stages |= move.kind == Step::Kind::receive && has_to_wait && !move.in_turn;
    }
    recipe_.moves.push_back(move);
  }

 private:
  Lane& lane_of(Step::Kind kind, int peer) {
    for (Lane& lane : recipe_.lanes) {
      if (lane.kind == kind && lane.peer == peer) return lane;
    }
    return recipe_.lanes.emplace_back(Lane{.kind = kind, .peer = peer, .moves = {}});
  }

  Recipe& recipe_;
  StepOrder order_;
};

// Where the chunks lie: data chunks one after another, then scratch, padded so that each is aligned.
std::vector<Place> places_of(const Call& call, const Steps& steps, int64_t unit, size_t& scratch_bytes) {
  constexpr size_t kAlign = 64;
  const size_t width = static_cast<size_t>(unit) * size_of(call.dtype);
  std::vector<Place> places;
  for (int chunk = 0; chunk < steps.chunks(); ++chunk) {
    const Part part = part_of(call.count / unit, steps.chunks(), chunk);
    const size_t begin = static_cast<size_t>(part.begin) * width;
    places.push_back({Space::data, begin, begin + static_cast<size_t>(part.size) * width});
  }
  for (int chunk = steps.chunks(); chunk < steps.chunks() + steps.scratch_chunks(); ++chunk) {
    const Place& like = places[steps.sized_as(chunk)];
    const size_t bytes = like.end - like.begin;
    places.push_back({Space::scratch, scratch_bytes, scratch_bytes + bytes});
    scratch_bytes += (bytes + kAlign - 1) / kAlign * kAlign;
  }
  return places;
}

// A barrier moves no bytes, but its order is that of a vector of one.
std::vector<Place> places_of_barrier(const Steps& steps) {
  return std::vector<Place>(steps.chunks() + steps.scratch_chunks(), Place{Space::data, 0, 1});
}

Place averaged_place(const Call& call, int64_t unit, int rank, int ranks) {
  const size_t width = static_cast<size_t>(unit) * size_of(call.dtype);
  const Place whole{Space::data, 0, static_cast<size_t>(call.count / unit) * width};
  if (call.op != ReduceOp::average || ranks == 1) return {};
  if (call.collective == Collective::all_reduce) return whole;
  if (call.collective == Collective::reduce && call.root == rank) return whole;
  if (call.collective != Collective::reduce_scatter) return {};
  const Part part = part_of(call.count / unit, ranks, rank);
  return {Space::data, static_cast<size_t>(part.begin) * width,
          static_cast<size_t>(part.begin + part.size) * width};
}

// Places as large as the counts say, one after another.
std::vector<Place> places_in_order(Space space, std::span<const int64_t> counts, size_t width) {
  std::vector<Place> places;
  size_t begin = 0;
  for (const int64_t count : counts) {
    const size_t end = begin + static_cast<size_t>(count) * width;
    places.push_back({space, begin, end});
    begin = end;
  }
  return places;
}

Recipe empty_recipe(const Call& call, size_t segment_bytes) {
  const size_t width = size_of(call.dtype);
  Recipe recipe;
  recipe.call = call;
  recipe.bytes = static_cast<size_t>(call.count) * width;
  recipe.segment_bytes = std::max(segment_bytes / width, size_t{1}) * width;
  recipe.combine = combine_function(call.dtype, call.op);
  return recipe;
}

// An empty message takes the place of one byte in the order of moves.
void make_empty_if_nothing(Move& move) {
  move.empty = move.place.begin == move.place.end;
  if (move.empty) ++move.place.end;
}

}  // namespace

Recipe make_recipe(const Call& call, const Steps& steps, int rank, std::span<const int> members,
                   size_t segment_bytes, int64_t unit) {
  Recipe recipe = empty_recipe(call, segment_bytes);
  recipe.ranks = steps.ranks();
  recipe.averaged = averaged_place(call, unit, rank, steps.ranks());
  const bool barrier = call.collective == Collective::barrier;
  const std::vector<Place> places =
      barrier ? places_of_barrier(steps) : places_of(call, steps, unit, recipe.scratch_bytes);
  const std::vector<bool> in_turn = receives_in_turn(steps, rank);
  Builder builder(recipe, static_cast<int>(places.size()));
  for (size_t i = 0; i < steps.of(rank).size(); ++i) {
    const Step& step = steps.of(rank)[i];
    Move move{.kind = step.kind, .action = step.action, .empty = barrier, .in_turn = in_turn[i]};
    move.place = places[step.chunk];
    move.place.end = std::max(move.place.end, places[step.chunk + step.count - 1].end);
    if (step.kind == Step::Kind::local) move.from = places[step.from];
    if (move.place.begin == move.place.end) continue;  // nothing is sent, on both sides
    builder.add(move, step, members[step.peer]);
  }
  return recipe;
}

Recipe make_all_to_all(const Call& call, const Steps& steps, std::span<const int64_t> send_counts,
                       std::span<const int64_t> receive_counts, int rank, std::span<const int> members,
                       size_t segment_bytes) {
  Recipe recipe = empty_recipe(call, segment_bytes);
  const int ranks = steps.ranks();
  const size_t width = size_of(call.dtype);
  const std::vector<Place> input = places_in_order(Space::data, send_counts, width);
  const std::vector<Place> output = places_in_order(Space::output, receive_counts, width);
  recipe.bytes = input.back().end;
  const size_t scratch_chunk = input[0].end;  // where there is scratch, chunks are even
  // Chunk from * ranks + to is what `from` gives to `to`. What is read was in the input, what is written goes
  // to the output, but for what is passed on.
  const auto scratch = [&](int chunk) -> Place {
    const size_t begin = static_cast<size_t>(chunk - steps.chunks()) * scratch_chunk;
    recipe.scratch_bytes = std::max(recipe.scratch_bytes, begin + scratch_chunk);
    return {Space::scratch, begin, begin + scratch_chunk};
  };
  const auto read = [&](int chunk) {
    return steps.is_scratch(chunk) ? scratch(chunk) : input[chunk % ranks];
  };
  const auto written = [&](int chunk) {
    return steps.is_scratch(chunk) ? scratch(chunk) : output[chunk / ranks];
  };
  const int own_input = steps.chunks() + steps.scratch_chunks();  // a number for what a rank has for itself
  Builder builder(recipe, own_input + 1);
  for (const Step& step : steps.of(rank)) {
    const bool sends = step.kind == Step::Kind::send;
    Move move{.kind = step.kind, .place = sends ? read(step.chunk) : written(step.chunk)};
    const int last = step.chunk + step.count - 1;
    move.place.end = (sends ? read(last) : written(last)).end;
    if (step.kind == Step::Kind::local) {
      move.from = read(step.from);
    } else {
      make_empty_if_nothing(move);  // sent all the same, so that the other end can see that it is empty
    }
    builder.add(move, step, members[step.peer]);
  }
  // What a rank gives to itself is nobody's message. No other move touches it.
  const Move own{.kind = Step::Kind::local, .place = output[rank], .from = input[rank]};
  const Step copy{Step::Kind::local, Action::copy, rank, rank * ranks + rank, own_input};
  if (own.place.end > own.place.begin) builder.add(own, copy, rank);
  return recipe;
}

Recipe make_message(const Call& call, Step::Kind kind, int peer, size_t segment_bytes) {
  Recipe recipe = empty_recipe(call, segment_bytes);
  Move move{.kind = kind, .place = {Space::data, 0, recipe.bytes}};
  make_empty_if_nothing(move);
  Builder(recipe, 1).add(move, {kind, Action::copy, peer, 0, 0}, peer);
  return recipe;
}

}  // namespace trireme::comm
