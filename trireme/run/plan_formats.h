// The number formats in which weights and gradients can be kept, as choices of a plan: a search for each of
// them (planner/search.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/planner/search.h"
#include "trireme/run/config.h"

namespace trireme {

struct NumberFormats {
  std::string weights = "f32", gradients = "f32";

  friend bool operator==(const NumberFormats&, const NumberFormats&) = default;
};
// "train.weight_precision=f16 train.gradient_precision=f16".
std::string to_string(const NumberFormats& formats);

// Those that train.precision allows, the config's own first.
std::vector<NumberFormats> number_formats(const Config& config);
Config with_formats(Config config, const NumberFormats& formats);

// Of a search with other formats: its result, or why nothing was found.
struct FormatResult {
  NumberFormats formats;
  std::optional<planner::SearchResult> result = {};
  std::string why = {};
};
// One search for each of `formats`, with the same options. Ends early, as they do.
std::vector<FormatResult> search_formats(const Config& config, const Shape& sample, const Cluster& cluster,
                                         const std::vector<NumberFormats>& formats,
                                         const planner::SearchOptions& options);
// The fastest of them; null where none has a result.
const FormatResult* fastest(const std::vector<FormatResult>& results);

}  // namespace trireme
