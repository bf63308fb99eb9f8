// Measures the links of a job, on the transport and with the number of ranks that it has; what is measured
// decides how collectives run and what they should cost (collective/link_model.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trireme/comm/collective/link_model.h"
#include "trireme/comm/context.h"

namespace trireme::comm {

enum class Thoroughness : uint8_t {
  probe,  // some tens of milliseconds, when a job starts; a few hundred where ranks outnumber cores
  full,   // a minute or more, for a file
};

struct CalibrationOptions {
  Thoroughness thoroughness = Thoroughness::probe;
  MemoryKind memory = MemoryKind::transport;
  std::optional<Collective> collective;  // of which whole operations are timed; the usual ones, if not said
};

// Collective over all ranks, of which there are two or more; all get the same.
LinkModel measure_links(Context& context, const CalibrationOptions& options);

// Collective: the medians of what rank 0 has measured in several passes (measurement.h), for all.
LinkModel combine_links(Context& context, std::span<const LinkModel> passes);

// The model of a file that fits this job, read by rank 0. Throws Error on all ranks when there is none.
LinkModel read_links(Context& context, const std::string& path, MemoryKind memory = MemoryKind::transport);

}  // namespace trireme::comm
