// See fit.h.
#include "trireme/planner/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/planner/choice.h"

namespace trireme::planner {
namespace {

constexpr int64_t kMostScheduled = 2048;  // what a schedule is written for; rows grow beyond

struct Technique {
  std::string name;
  Choice choice;
};

std::vector<Technique> techniques(const Subject& subject, int devices) {
  std::vector<Technique> result;
  const auto add = [&](const std::string& name, Choice choice) {
    result.push_back({name, choice});
    choice.recompute = Recompute::Kind::kFull;
    result.push_back({name + ", recompute full", choice});
  };
  add("one device", {});
  if (devices == 1) return result;
  for (const char* sharing : {"data", "zero1", "zero2", "zero3"})
    add(fmt::format("{} {}", sharing, devices), {.data = devices, .sharing = sharing});
  for (const std::string& preset : subject.tensor_presets)
    add(fmt::format("{} {}", preset, devices), {.tensor = devices, .tensor_preset = preset});
  add(fmt::format("pipe {}", devices), {.pipe = devices, .schedule = "1f1b"});
  if (devices % 2 == 0 && devices > 2) {
    for (const std::string& preset : subject.tensor_presets)
      add(fmt::format("{} {}, pipe 2", preset, devices / 2),
          {.tensor = devices / 2, .pipe = 2, .tensor_preset = preset, .schedule = "1f1b"});
  }
  return result;
}

Need need_of(const Subject& subject, const Technique& technique) {
  Need need{.technique = technique.name};
  Choice choice = technique.choice;
  const int64_t parts = choice.row_parts(), own = subject.batch / parts;
  if (own == 0 || subject.batch % parts != 0) {
    need.refused = fmt::format("a batch of {} can not be dealt evenly to {}", subject.batch, parts);
    return need;
  }
  choice.rows = 1;
  while (own % choice.rows != 0 || own / choice.rows > kMostScheduled) ++choice.rows;
  choice.microbatches = own / choice.rows;
  try {
    const Plan plan = plan_of(choice, {});
    const sim::ProgramSource programs =
        subject.programs(plan, {choice.rows * parts, choice.microbatches}, Subject::Model::kWhole);
    // All ranks of a stage need as much where rows are even.
    const int of_stage = choice.ranks() / choice.pipe;
    for (int stage = 0; stage < choice.pipe; ++stage) {
      const Program program = programs(stage * of_stage);
      const sim::MemoryUse memory = sim::memory_of(program);
      if (memory.peak_bytes > need.memory.peak_bytes) need.memory = memory;
    }
  } catch (const Error& error) {
    need.refused = error.what();
  }
  return need;
}

}  // namespace

std::string_view Need::largest_kind() const {
  if (memory.kinds.empty()) return "";
  return std::ranges::max_element(memory.kinds, {}, [](const auto& kind) { return kind.second; })->first;
}

double Need::over_bytes(const DeviceClass& device) const {
  return static_cast<double>(memory.peak_bytes) - device.memory_bytes;
}

std::vector<Need> needs_of(const Subject& subject, int devices) {
  if (devices < 1) throw_error("{} devices given; one or more expected", devices);
  std::vector<Need> needs;
  for (const Technique& technique : techniques(subject, devices))
    needs.push_back(need_of(subject, technique));
  return needs;
}

}  // namespace trireme::planner
