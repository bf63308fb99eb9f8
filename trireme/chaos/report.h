// Results of drills for people, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "trireme/chaos/result.h"

namespace trireme::chaos {

// Lines of a table: its head, one of its results, and what a list of all drills has.
std::string table_head();
std::string table_line(const Result& result);
std::string drill_line(const Drill& drill);

// What became of the resources of a soak; "" of other drills.
std::string soak_text(const Result& result);

// For each drill, transport and plan that was run more than once, and for each drill in all: medians, 95th
// and 99th percentiles. "" where there is none.
std::string summary_of(std::span<const Result> results);

// The command that repeats one.
std::string command_of(const Result& result);

nlohmann::ordered_json json_of(std::span<const Result> results);

}  // namespace trireme::chaos
