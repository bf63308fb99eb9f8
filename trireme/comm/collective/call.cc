// Names of calls, and their packing in one word: 4 bits collective, 4 algorithm, 3 dtype, 3 op, 12 root, 38
// count.
#include "trireme/comm/collective/call.h"

#include <fmt/format.h>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

constexpr EnumNames<10> kCollectives = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                        "gather",     "scatter",        "all_to_all", "barrier",   "message"};
constexpr EnumNames<5> kOps = {"sum", "average", "max", "min", "product"};
constexpr EnumNames<12> kAlgorithms = {
    "automatic",    "native", "naive",       "parameter_server", "sharded_parameter_server",
    "ring",         "tree",   "double_tree", "butterfly",        "reduce_scatter_gather",
    "hierarchical", "linear"};

// A word that comes from another rank may hold anything, so a number without a name still has to print.
template <size_t N>
std::string_view name_at(const EnumNames<N>& names, size_t index) {
  return index < N ? names[index] : "unknown";
}

std::string with_commas(int64_t value) {
  std::string text = std::to_string(value);
  for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3) text.insert(i, ",");
  return text;
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

}  // namespace

std::string_view name(Collective collective) {
  return name_at(kCollectives, static_cast<size_t>(collective));
}
std::string_view name(ReduceOp op) {
  return name_at(kOps, static_cast<size_t>(op));
}
std::string_view name(Algorithm algorithm) {
  return name_at(kAlgorithms, static_cast<size_t>(algorithm));
}

std::optional<Collective> parse_collective(std::string_view text) {
  return enum_named<Collective>(kCollectives, text);
}
std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  return enum_named<ReduceOp>(kOps, text);
}
std::optional<Algorithm> parse_algorithm(std::string_view text) {
  return enum_named<Algorithm>(kAlgorithms, text);
}

uint64_t Call::pack() const {
  TRIREME_CHECK(root >= 0);
  TRIREME_CHECK(root <= kMaxRoot);
  TRIREME_CHECK(count >= 0);
  TRIREME_CHECK(count <= kMaxCount);
  return static_cast<uint64_t>(collective) | static_cast<uint64_t>(algorithm) << 4 |
         static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(op) << 11 |
         static_cast<uint64_t>(root) << 14 | static_cast<uint64_t>(count) << 26;
}

Call Call::unpack(uint64_t word) {
  const auto bits = [&](int shift, int width) { return word >> shift & ((uint64_t{1} << width) - 1); };
  return {.collective = static_cast<Collective>(bits(0, 4)),
          .algorithm = static_cast<Algorithm>(bits(4, 4)),
          .dtype = static_cast<DType>(bits(8, 3)),
          .op = static_cast<ReduceOp>(bits(11, 3)),
          .root = static_cast<int>(bits(14, 12)),
          .count = static_cast<int64_t>(bits(26, 38))};
}

std::string to_text(const Call& call) {
  const bool known_dtype = static_cast<int>(call.dtype) <= static_cast<int>(DType::u8);
  std::string text(name(call.collective));
  if (call.collective == Collective::barrier) return text;
  // The counts of an all-to-all are each rank's own and no part of the call, unless all are equal.
  const bool own_counts = call.collective == Collective::all_to_all && call.count == 0;
  text += own_counts ? " of " : fmt::format(" of {} ", with_commas(call.count));
  text += known_dtype ? name(call.dtype) : "unknown";
  if (reduces(call.collective)) text += fmt::format(", {}", name(call.op));
  if (has_root(call.collective)) text += fmt::format(", root {}", call.root);
  if (call.collective == Collective::message && call.root != 0) text += fmt::format(", tag {}", call.root);
  if (call.algorithm != Algorithm::automatic) text += fmt::format(", by {}", name(call.algorithm));
  return text;
}

}  // namespace trireme::comm
