// The flight recorder: the last operations of each rank, in memory that outlives the rank (the launcher's,
// where there is one), so that after a hang or a kill -9 one table shows who was where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace trireme::comm {

class Recorder {
 public:
  static constexpr int kEntries = 64;  // per rank; older ones are overwritten

  static size_t bytes_for(int ranks);
  // `memory` has bytes_for(ranks) bytes, zeroed by its maker, and outlives the recorder; all ranks share it,
  // or each has its own and sees only itself. `rank` -1: a reader that records nothing.
  Recorder(std::span<std::byte> memory, int rank, int ranks);

  // A few plain stores: this is called for every collective. `ticks` is when, by read_ticks(), which costs as
  // much as all the rest. Returns the entry for finished() and failed().
  uint32_t started(uint64_t stream, uint64_t call, size_t bytes, uint64_t ticks);
  void finished(uint32_t entry, uint64_t ticks);
  void failed(uint32_t entry, uint64_t ticks);

  // Names the group for the table; kept in the memory as well. At most 31 characters are kept.
  void name_group(uint32_t group, std::string_view name);

  // One row an operation, newest last, `rows` per rank. Ranks that are behind the others of a group are
  // marked; where it is known which ranks died and how ("killed by signal 9"), those are marked instead, for
  // among the others being behind is chance. May be called at any time, from any process that has the memory,
  // also after a rank was killed.
  std::string table(int rows = 4, const std::map<int, std::string>& dead = {}) const;
  // Whether any rank has started an operation; may be called like table().
  bool any_started() const;

 private:
  void end(uint32_t entry, uint64_t state, uint64_t ticks);

  std::span<std::byte> memory_;
  int rank_;
  int ranks_;
};

}  // namespace trireme::comm
