// See recorder.h. The memory is one block per rank, written by that rank alone: a count, names of groups, and
// a ring of entries. An entry's version is odd while it is written and tells which operation it holds, so a
// reader in another process sees a whole entry or skips it, whenever the writer was killed.
#include "trireme/comm/engine/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/collective/call.h"
#include "trireme/comm/engine/flight_record.h"
#include "trireme/comm/transport/ticks.h"

namespace trireme::comm {
namespace {

constexpr int kNamedGroups =
    32;  // groups per rank that have a name in the table; the others show their number
constexpr size_t kNameBytes = 32;

enum State : uint64_t { kRunning, kDone, kFailed };

// Word by word atomic: there is no lock that a killed writer could leave locked.
struct Entry {
  std::atomic<uint64_t> version;  // 2 * index + 1 while written, 2 * index + 2 when whole; 0: never used
  std::atomic<uint64_t> stream;
  std::atomic<uint64_t> call;
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> started_ticks;  // of the processor's clock, the same for all processes of a host
  std::atomic<uint64_t> ended_ticks;
  std::atomic<uint64_t> state;
  uint64_t unused;
};
static_assert(sizeof(Entry) == 64);

struct Name {
  std::atomic<uint64_t> used;  // group + 1, stored after the text
  char text[kNameBytes];
  uint64_t unused[3];
};
static_assert(sizeof(Name) == 64);

struct Block {
  std::atomic<uint64_t> started;  // operations so far
  uint64_t unused[7];
  Name names[kNamedGroups];
  Entry entries[Recorder::kEntries];
};
static_assert(sizeof(Block) % 64 == 0);

Block* block_of(std::span<std::byte> memory, int rank) {
  return reinterpret_cast<Block*>(memory.data()) + rank;
}

// Messages between two ranks have streams of their own, with the highest bit set: the group is the same.
uint32_t group_of(uint64_t stream) {
  return static_cast<uint32_t>(stream >> 32) & 0x7fffffffu;
}

struct Row {
  int rank;
  uint64_t index;
  uint32_t group;
  uint32_t sequence;
  Call call;
  size_t bytes;
  uint64_t started_ticks;
  uint64_t ended_ticks;
  State state;
};

std::optional<Row> read_entry(const Block& block, int rank, uint64_t index) {
  const Entry& entry = block.entries[index % Recorder::kEntries];
  const uint64_t whole = 2 * index + 2;
  if (entry.version.load(std::memory_order_acquire) != whole) return std::nullopt;
  // Acquire, so that the second look at the version comes after all of these.
  const auto read = [](const std::atomic<uint64_t>& word) { return word.load(std::memory_order_acquire); };
  const uint64_t stream = read(entry.stream);
  const Row row{.rank = rank,
                .index = index,
                .group = group_of(stream),
                .sequence = static_cast<uint32_t>(stream),
                .call = Call::unpack(read(entry.call)),
                .bytes = read(entry.bytes),
                .started_ticks = read(entry.started_ticks),
                .ended_ticks = read(entry.ended_ticks),
                .state = static_cast<State>(read(entry.state))};
  if (entry.version.load(std::memory_order_relaxed) != whole) return std::nullopt;
  return row;
}

// The last `count` operations of a rank, oldest first.
std::vector<Row> last_rows(const Block& block, int rank, uint64_t count) {
  const uint64_t end = block.started.load(std::memory_order_acquire);
  std::vector<Row> rows;
  for (uint64_t index = end - std::min(end, count); index < end; ++index) {
    if (std::optional<Row> row = read_entry(block, rank, index)) rows.push_back(*row);
  }
  return rows;
}

struct NamedGroup {
  uint32_t group;
  std::string name;
};

std::vector<NamedGroup> named_groups(const Block& block) {
  std::vector<NamedGroup> groups;
  for (const Name& name : block.names) {
    const uint64_t used = name.used.load(std::memory_order_acquire);
    if (used == 0) break;
    groups.push_back({static_cast<uint32_t>(used - 1),
                      printable(std::string_view(name.text, strnlen(name.text, kNameBytes)))});
  }
  return groups;
}

// How far each rank is in one group. 0: it belongs to the group and has started nothing in it.
struct Progress {
  std::string name;
  std::map<int, uint64_t> started;  // rank -> last sequence + 1
  uint64_t furthest = 0;

  void add(int rank, uint64_t count) {
    uint64_t& most = started.try_emplace(rank, 0).first->second;
    most = std::max(most, count);
    furthest = std::max(furthest, count);
  }
};

std::map<uint32_t, Progress> progress_of_groups(std::span<std::byte> memory, int ranks) {
  std::map<uint32_t, Progress> groups;
  for (int rank = 0; rank < ranks; ++rank) {
    const Block& block = *block_of(memory, rank);
    const uint64_t total = block.started.load(std::memory_order_acquire);
    for (const NamedGroup& named : named_groups(block)) {
      Progress& progress = groups[named.group];
      progress.name = named.name;
      // A rank whose operations in this group have left the ring can not be said to be behind.
      if (total < Recorder::kEntries) progress.add(rank, 0);
    }
    for (const Row& row : last_rows(block, rank, Recorder::kEntries)) {
      Progress& progress = groups[row.group];
      // Messages between two ranks say nothing about the others.
      if (row.call.collective != Collective::message) progress.add(rank, uint64_t{row.sequence} + 1);
    }
  }
  for (auto& [group, progress] : groups) {
    if (progress.name.empty()) progress.name = fmt::format("{:#x}", group);
  }
  return groups;
}

std::string_view state_text(State state) {
  switch (state) {
    case kRunning:
      return "running";
    case kDone:
      return "done";
    case kFailed:
      return "failed";
  }
  return "unknown";
}

FlightEntry entry_of(const Row& row, const Progress& progress, uint64_t now, const TickRate& rate) {
  const double took = row.state == kRunning ? 0 : rate.seconds(row.ended_ticks - row.started_ticks);
  return {.rank = row.rank,
          .group = progress.name,
          .number = row.sequence,
          .call = to_text(row.call),
          .bytes = row.bytes,
          .state = std::string(state_text(row.state)),
          .ago_seconds = row.started_ticks < now ? rate.seconds(now - row.started_ticks) : 0,
          .seconds = took,
          .others_at = {}};
}

std::string row_text(const FlightEntry& entry) {
  const std::string took = entry.state == state_text(kRunning) ? "-" : fmt::format("{:.6f} s", entry.seconds);
  return fmt::format("{:>4}  {:<12} {:>8}  {:<52} {:>10}  {:<7} {:>9.3f} s ago {:>14}", entry.rank,
                     entry.group, entry.number, entry.call, format_bytes(entry.bytes), entry.state,
                     entry.ago_seconds, took);
}

bool is_last_of_group(const Row& row, const Progress& progress) {
  const auto found = progress.started.find(row.rank);
  return found != progress.started.end() && found->second == uint64_t{row.sequence} + 1;
}

// " is behind in 'world': at number 4, others are at 11", and "" for one that is not.
std::string behind_text(uint64_t count, const Progress& progress) {
  if (count == progress.furthest) return "";
  return count == 0 ? fmt::format(" has started nothing in '{}'; others are at number {}", progress.name,
                                  progress.furthest - 1)
                    : fmt::format(" is behind in '{}': at number {}, others are at {}", progress.name,
                                  count - 1, progress.furthest - 1);
}

}  // namespace

size_t Recorder::bytes_for(int ranks) {
  return sizeof(Block) * static_cast<size_t>(ranks);
}

Recorder::Recorder(std::span<std::byte> memory, int rank, int ranks)
    : memory_(memory), rank_(rank), ranks_(ranks) {
  TRIREME_CHECK(memory.size() >= bytes_for(ranks));
  TRIREME_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(Block) == size_t{0});
  TRIREME_CHECK(rank < ranks);
}

uint32_t Recorder::started(uint64_t stream, uint64_t call, size_t bytes, uint64_t ticks) {
  TRIREME_CHECK(rank_ >= 0);
  Block& block = *block_of(memory_, rank_);
  const uint64_t index = block.started.load(std::memory_order_relaxed);
  Entry& entry = block.entries[index % kEntries];
  entry.version.store(2 * index + 1, std::memory_order_relaxed);
  // Release, so that nobody sees a new word under the old version; plain stores on x86.
  const auto write = [](std::atomic<uint64_t>& word, uint64_t value) {
    word.store(value, std::memory_order_release);
  };
  write(entry.stream, stream);
  write(entry.call, call);
  write(entry.bytes, bytes);
  write(entry.started_ticks, ticks);
  write(entry.ended_ticks, 0);
  write(entry.state, kRunning);
  write(entry.version, 2 * index + 2);
  write(block.started, index + 1);
  return static_cast<uint32_t>(index);
}

void Recorder::end(uint32_t entry, uint64_t state, uint64_t ticks) {
  Block& block = *block_of(memory_, rank_);
  Entry& slot = block.entries[entry % kEntries];
  // More than kEntries operations in flight: the slot belongs to a later one.
  const uint64_t index = slot.version.load(std::memory_order_relaxed) / 2 - 1;
  if (static_cast<uint32_t>(index) != entry) return;
  slot.ended_ticks.store(ticks, std::memory_order_relaxed);
  slot.state.store(state, std::memory_order_release);
}

void Recorder::finished(uint32_t entry, uint64_t ticks) {
  end(entry, kDone, ticks);
}

void Recorder::failed(uint32_t entry, uint64_t ticks) {
  end(entry, kFailed, ticks);
}

void Recorder::name_group(uint32_t group, std::string_view name) {
  TRIREME_CHECK(rank_ >= 0);
  Block& block = *block_of(memory_, rank_);
  for (Name& slot : block.names) {
    const uint64_t used = slot.used.load(std::memory_order_relaxed);
    if (used == uint64_t{group} + 1) return;
    if (used != 0) continue;
    name.copy(slot.text, kNameBytes - 1);
    slot.used.store(uint64_t{group} + 1, std::memory_order_release);
    return;
  }
}

bool Recorder::any_started() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (block_of(memory_, rank)->started.load(std::memory_order_acquire) > 0) return true;
  }
  return false;
}

std::string Recorder::table(int rows, const std::map<int, std::string>& dead) const {
  return table_of(flight_record(memory_, ranks_, dead), rows);
}

FlightRecord flight_record(std::span<std::byte> memory, int ranks, const std::map<int, std::string>& dead) {
  const TickRate rate;
  const uint64_t now = read_ticks();
  const std::map<uint32_t, Progress> groups = progress_of_groups(memory, ranks);
  FlightRecord record{.ranks = ranks, .entries = {}, .ends = dead, .behind = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Row& row : last_rows(*block_of(memory, rank), rank, Recorder::kEntries)) {
      // A group that came up since the groups were read has no name yet.
      const auto found = groups.find(row.group);
      const Progress progress = found == groups.end() ? Progress{} : found->second;
      FlightEntry& entry = record.entries.emplace_back(entry_of(row, progress, now, rate));
      if (is_last_of_group(row, progress) && uint64_t{row.sequence} + 1 < progress.furthest)
        entry.others_at = progress.furthest - 1;
    }
  }
  for (const auto& [group, progress] : groups) {
    for (const auto& [rank, count] : progress.started) {
      const std::string behind = behind_text(count, progress);
      if (!behind.empty() && (dead.empty() || dead.contains(rank)))
        record.behind.push_back(fmt::format("rank {}{}", rank, behind));
    }
  }
  return record;
}

std::string table_of(const FlightRecord& record, int rows) {
  std::string text = fmt::format("{:>4}  {:<12} {:>8}  {:<52} {:>10}  {:<7} {:>15} {:>14}\n", "rank", "group",
                                 "number", "call", "size", "state", "started", "took");
  for (int rank = 0; rank < record.ranks; ++rank) {
    const auto is_of_rank = [&](const FlightEntry& entry) { return entry.rank == rank; };
    const auto begin = std::ranges::find_if(record.entries, is_of_rank);
    const auto end = std::find_if_not(begin, record.entries.end(), is_of_rank);
    const auto death = record.ends.find(rank);
    const std::string how = death == record.ends.end() ? "" : fmt::format("  <- {}", death->second);
    if (begin == end) text += fmt::format("{:>4}  nothing was started{}\n", rank, how);
    for (auto entry = end - std::min<ptrdiff_t>(rows, end - begin); entry != end; ++entry) {
      text += row_text(*entry);
      if (record.ends.empty() && entry->others_at)
        text += fmt::format("  <- behind: others are at {}", *entry->others_at);
      if (entry + 1 == end) text += how;
      text += "\n";
    }
  }
  for (const auto& [rank, how] : record.ends) text += fmt::format("rank {} {}\n", rank, how);
  for (const std::string& sentence : record.behind) text += sentence + "\n";
  return text;
}

}  // namespace trireme::comm
