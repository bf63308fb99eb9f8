// What the flight recorder had when it was read: the last operations of each rank as plain data, for a table
// and for a file that outlives the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme::comm {

struct FlightEntry {
  int rank = 0;
  std::string group;
  uint64_t number = 0;  // of the operation in its group
  std::string call;
  uint64_t bytes = 0;
  std::string state;                  // running, done, failed
  double ago_seconds = 0;             // since it was started, when the record was read
  double seconds = 0;                 // that it took; 0: it is running
  std::optional<uint64_t> others_at;  // it is the rank's last in the group, and others have started this one

  bool operator==(const FlightEntry&) const = default;
};

struct FlightRecord {
  int ranks = 0;
  std::vector<FlightEntry> entries;  // by rank, oldest first
  std::map<int, std::string> ends;   // ranks that are the cause, and how they ended: "killed by signal 9"
  std::vector<std::string> behind;   // sentences: which rank is behind where

  bool operator==(const FlightRecord&) const = default;
};

// Of memory that a Recorder of so many ranks writes to. Where it is known which ranks died and how, those
// alone are said to be behind, for among the others it is chance.
FlightRecord flight_record(std::span<std::byte> memory, int ranks, const std::map<int, std::string>& dead);

// One row an operation, the last `rows` of each rank.
std::string table_of(const FlightRecord& record, int rows);

}  // namespace trireme::comm
