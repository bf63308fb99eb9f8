// See rank_log.h.
#include "trireme/run/rank_log.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/machine.h"
#include "trireme/run/run_record.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Of the steps of a run as it begins each has its line. Later, a day of many ranks must not fill the disk:
// some 16 lines a second, of all ranks together.
constexpr int64_t kLinesForSteps = 1000;
constexpr double kLinesASecond = 16;

}  // namespace

RankLog::RankLog(const std::string& folder, const Program& program, int ranks, int64_t step)
    : seconds_between_lines_(std::max(1.0, ranks / kLinesASecond)) {
  const fs::path path = fs::path(folder) / "ranks" / fmt::format("{}.jsonl", program.rank);
  try {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    keep_lines_up_to(path.string(), step);
    file_.emplace(path.string());
  } catch (const Error&) {
    return;
  }
  file_->add(Json{{"step", step},
                  {"time", wall_seconds()},
                  {"rank", program.rank},
                  {"host", host_name()},
                  {"pid", ::getpid()},
                  {"memory", memory_by_kind(program)}}
                 .dump());
}

void RankLog::add(const StepMetrics& step) {
  if (!file_) return;
  sums_.step = step.step;
  sums_.step_seconds += step.step_seconds;
  sums_.comm_seconds += step.comm_seconds;
  sums_.bytes_sent += step.bytes_sent;
  ++steps_;
  if (lines_ < kLinesForSteps || step.time - written_ >= seconds_between_lines_) {
    sums_.time = step.time;
    write_line();
  }
}

void RankLog::write_line() {
  const double steps = static_cast<double>(steps_);
  file_->add(Json{{"step", sums_.step},
                  {"steps", steps_},
                  {"seconds", sums_.step_seconds / steps},
                  {"comm_seconds", sums_.comm_seconds / steps},
                  {"bytes_sent", sums_.bytes_sent / static_cast<uint64_t>(steps_)},
                  {"time", sums_.time}}
                 .dump());
  ++lines_;
  written_ = sums_.time;
  sums_ = {};
  steps_ = 0;
}

}  // namespace trireme
