// What was measured of a transport, from which costs are predicted and algorithms chosen. Calibration writes
// it to a file; all ranks of a job must use the same one, because they have to choose the same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/collective/curve.h"

namespace trireme::comm {

// Where vectors lie: in memory that the transport gave (see Transport::allocate), or anywhere.
enum class MemoryKind : uint8_t { transport, ordinary };
std::string_view name(MemoryKind kind);

// Messages between two ranks.
struct LinkCurves {
  Curve message;  // from the start of the send to the end of the receive: half of a ping-pong
  Curve gap;      // from one message to the next of many in a row; empty: no shorter than `message`
  // Two ranks at once, each sending one and taking one: what a message costs a rank at its two ends. Empty:
  // each end is busy for the gap.
  Curve exchange;

  friend bool operator==(const LinkCurves&, const LinkCurves&) = default;
};

// Exchanging the whole of a vector, in segments: of vectors that no cache holds a byte takes longer than the
// messages alone say. Each curve may be empty.
struct VectorCurves {
  Curve message;   // what a message of such a vector costs whatever its size; else `exchange` of no bytes
  Curve exchange;  // each rank sends so many bytes and takes as many
  Curve add;       // and adds them as it takes them
  Curve reduce;    // adding so many that were taken before, alone
  // As `exchange`, where what is taken is sent on a moment later. Of shorter vectors, or empty: the same.
  Curve hand_on;

  friend bool operator==(const VectorCurves&, const VectorCurves&) = default;
};

// Whole operations as they were timed, by the bytes of the vector, in segments of kDefaultSegmentBytes.
using TimedOperations = std::map<Algorithm, Curve>;

// The way that was found to be the fastest for vectors of about so many bytes.
struct Preference {
  size_t bytes = 0;
  Algorithm algorithm = Algorithm::automatic;
  size_t segment_bytes = 0;  // of native 0

  friend bool operator==(const Preference&, const Preference&) = default;
};

struct LinkModel {
  std::string transport;  // "shm"
  MemoryKind memory = MemoryKind::transport;
  int ranks = 0;  // that were there when it was measured
  int cores = 0;  // per host, that ranks share; 0: one for each
  Ports ports = Ports::one;
  double operation_seconds = 0;  // of starting and ending an operation, beside its messages
  LinkCurves inside;             // between ranks of one host
  LinkCurves across;             // between hosts; empty: the same
  Curve reduce;                  // adding that many bytes that were taken before
  Curve add;                     // adding them as they are taken, beyond taking; empty: no less
  VectorCurves vectors;
  // The transport's own way; and every other where ranks outnumber cores, because what taking turns costs
  // them is not in messages between pairs.
  std::map<Collective, TimedOperations> timed;
  // Of groups of `ranks`, bytes ascending. Where there is none, the least predicted time decides.
  std::map<Collective, std::vector<Preference>> preferred;

  friend bool operator==(const LinkModel&, const LinkModel&) = default;
};

// nullptr when it was not timed.
const Curve* timed_curve(const LinkModel& model, Collective collective, Algorithm algorithm);

// Of the size that is nearest, as a factor; nullptr when there is none.
const Preference* preference_for(const LinkModel& model, Collective collective, size_t bytes);

// Of collectives on a vector of so many bytes. `hosts`: host number of each rank; empty: all on one.
Costs costs_of(const LinkModel& model, std::span<const int> hosts, size_t vector_bytes);

// A file is a list of models, as JSON. Reading throws Error with `origin` (a path) and what is wrong.
std::string to_json(std::span<const LinkModel> models);
std::vector<LinkModel> parse_link_models(std::string_view json, std::string_view origin);
std::vector<LinkModel> read_link_models(const std::string& path);
void write_link_models(const std::string& path, std::span<const LinkModel> models);

// The one of this transport and memory that was measured with the nearest number of ranks; nullptr when there
// is none.
const LinkModel* find_link_model(std::span<const LinkModel> models, std::string_view transport, int ranks,
                                 MemoryKind memory = MemoryKind::transport);

}  // namespace trireme::comm
