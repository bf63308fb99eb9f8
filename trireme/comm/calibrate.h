// Times whole collectives of a job, on the transport and with the number of ranks that it has; the table
// decides how collectives run (collective/link_table.h).
#pragma once

#include <optional>
#include <string>

#include "trireme/comm/collective/link_table.h"
#include "trireme/comm/context.h"

namespace trireme::comm {

enum class Thoroughness : uint8_t {
  probe,  // tens of milliseconds, when a job starts; a few hundred where ranks outnumber cores
  full,   // under 20 seconds, for a file
};

struct CalibrationOptions {
  Thoroughness thoroughness = Thoroughness::probe;
  MemoryKind memory = MemoryKind::transport;
  // The only one that is timed, beside the barrier. Absent: all_reduce for a probe, else those that training
  // uses.
  std::optional<Collective> collective;
  double seconds = 0;  // in all, about; 0: as above
};

// Collective over all ranks, of which there are two or more; all get the same.
LinkTable measure_links(Context& context, const CalibrationOptions& options);

// The table of a file that fits this job, read by rank 0. Throws Error on all ranks if there is none.
LinkTable read_links(Context& context, const std::string& path, MemoryKind memory = MemoryKind::transport);

}  // namespace trireme::comm
