// A pipeline by the name of its schedule.
#pragma once

#include <string_view>

#include "trireme/schedule/pipeline_table.h"

namespace trireme {

inline Pipeline make(std::string_view name, int stages = 4, int64_t microbatches = 4, int chunks = 0) {
  return make_pipeline(find_schedule(name), {stages, microbatches, chunks});
}

}  // namespace trireme
