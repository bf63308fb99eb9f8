// RUN/flight.json: what each rank did last when one was lost or stuck (comm/engine/flight_record.h). Written
// by the launcher, whose memory it was in, so that a rank that is killed or stopped is in it too.
#pragma once

#include <string>
#include <string_view>

#include "trireme/comm/engine/flight_record.h"

namespace trireme {

inline constexpr const char* kFlightFile = "flight.json";

struct FlightFile {
  double time = 0;  // when the record was read, in seconds since 1970
  comm::FlightRecord record;
};

// Where it goes: into the run's folder, or, where there is none or the run has not made it yet, into a new
// file for temporary ones. Throws Error.
std::string new_flight_file(const std::string& run);

std::string render_flight(const FlightFile& flight);
// Throws Error, which opens with `where`, if the text is no such file.
FlightFile parse_flight(std::string_view json, std::string_view where);

}  // namespace trireme
