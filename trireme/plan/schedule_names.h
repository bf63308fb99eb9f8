// The pipeline schedules that a plan can name. schedule/pipeline_table.h has a record of each.
#pragma once

#include <string_view>

namespace trireme {

inline constexpr std::string_view kScheduleNames[] = {"gpipe", "1f1b", "interleaved", "chimera", "zb_h1",
                                                      "zb_h2", "zb_v", "pipedream",   "2bw"};

}  // namespace trireme
