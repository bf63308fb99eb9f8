// How long whole collectives take on one transport with one number of ranks. Measured once per machine
// (comm/calibrate.h) and kept in a file. The automatic choice reads this table; α, β and γ are fitted to it
// for what was not timed. All ranks of a job must use the same table, because they have to choose the same.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/formula.h"

namespace trireme::comm {

// Where vectors lie: in memory that the transport gave (see Transport::allocate), or anywhere.
enum class MemoryKind : uint8_t { transport, ordinary };
std::string_view name(MemoryKind kind);

struct TimedPoint {
  size_t bytes = 0;
  double seconds = 0;

  friend bool operator==(const TimedPoint&, const TimedPoint&) = default;
};

// One algorithm's times: at least one, sizes ascending.
using Curve = std::vector<TimedPoint>;

// Straight lines between the points, level below the first. Above the last, time grows as bytes do, whatever
// the last line says: on a busy machine it may fall.
double seconds_at(const Curve& curve, size_t bytes);

struct LinkTable {
  std::string transport;  // "shm"
  MemoryKind memory = MemoryKind::transport;
  int ranks = 0;  // that took part in every operation below
  Link link;      // fitted to the times below
  // Seconds against the bytes of the vector, in segments of kDefaultSegmentBytes.
  std::map<Collective, std::map<Algorithm, Curve>> timed;
};

// nullptr if it was not timed.
const Curve* timed_curve(const LinkTable& table, Collective collective, Algorithm algorithm);

// The α, β, γ >= 0 whose closed forms (formula.h) come nearest to the timed operations, in relative error.
// `hosts`: host number of each rank; empty: all on one. The transport's native operations have no closed form
// and are left out.
Link fit_link(const LinkTable& table, std::span<const int> hosts);

// A file is a list of tables, as JSON. Reading throws Error with `origin` (a path) and what is wrong.
std::string to_json(std::span<const LinkTable> tables);
std::vector<LinkTable> parse_link_tables(std::string_view json, std::string_view origin);
std::vector<LinkTable> read_link_tables(const std::string& path);
void write_link_tables(const std::string& path, std::span<const LinkTable> tables);

// The table of this transport and memory with the nearest number of ranks; nullptr if there is none.
const LinkTable* find_link_table(std::span<const LinkTable> tables, std::string_view transport, int ranks,
                                 MemoryKind memory = MemoryKind::transport);

}  // namespace trireme::comm
