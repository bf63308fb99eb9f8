// What one rank asked of a group: which collective, of what, how. Every message carries the call that it
// belongs to, so that ranks that call different things find out, and both calls can be printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/base/dtype.h"

namespace trireme::comm {

enum class Collective : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  message,  // one send and its receive, outside of any collective
};

enum class ReduceOp : uint8_t { sum, average, max, min, product };

// `automatic` is a wish, never part of a call on the wire: the choice is made before. `native` is the
// transport's own way (direct reduction in shared memory, MPI's collective); all others are Steps.
enum class Algorithm : uint8_t {
  automatic,
  native,
  naive,
  parameter_server,
  sharded_parameter_server,
  ring,
  tree,
  double_tree,
  butterfly,
  reduce_scatter_gather,
  hierarchical,
  linear,
};

std::string_view name(Collective collective);
std::string_view name(ReduceOp op);
std::string_view name(Algorithm algorithm);
std::optional<Collective> parse_collective(std::string_view text);
std::optional<ReduceOp> parse_reduce_op(std::string_view text);
std::optional<Algorithm> parse_algorithm(std::string_view text);  // "ring", "reduce_scatter_gather"

struct Call {
  Collective collective = Collective::barrier;
  Algorithm algorithm = Algorithm::automatic;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;  // sum where nothing is reduced
  int root = 0;                 // 0 where there is none; of a message, its tag
  // Elements of the whole vector; see Group for what that is in each collective. 0 in an all_to_all of parts
  // that are not equal.
  int64_t count = 0;

  // All of it in 64 bits, so that comparing two calls is comparing two words.
  static constexpr int kMaxRoot = (1 << 12) - 1;
  static constexpr int64_t kMaxCount = (int64_t{1} << 38) - 1;
  uint64_t pack() const;
  static Call unpack(uint64_t word);

  friend bool operator==(const Call&, const Call&) = default;
};

// "all_reduce of 1,024 f32, sum, by ring"
std::string to_text(const Call& call);

}  // namespace trireme::comm
