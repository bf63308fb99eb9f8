// expect_room(); see device_queries.h. States are counted by their roles, and everything that lives within a
// step as one.
#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/runtime/device_queries.h"

namespace trireme {
namespace {

struct Consumer {
  std::string what, help;
  size_t bytes;
};

Consumer state_consumer(Role role, size_t bytes) {
  if (role == Role::kParameter) return {"weights", "zero3 over more ranks", bytes};
  if (role == Role::kMaster) return {"f32 forms of 16-bit weights", "zero1 over more ranks", bytes};
  if (role == Role::kOptimizer) return {"states of the optimizer", "zero1 over more ranks", bytes};
  if (role == Role::kResidual)
    return {"what the exchange between replicas keeps", "a method without error feedback", bytes};
  if (role == Role::kVersion)
    return {"older versions of weights", "the schedule 2bw, or a synchronous one", bytes};
  if (role == Role::kGradient) return {"gradients", "zero2 over more ranks", bytes};
  return {"other states", "a smaller model", bytes};
}

std::vector<Consumer> consumers(const Program& program) {
  std::vector<Consumer> all = {
      {"what a step makes on its way", "a smaller train.batch with train.accumulate", program.arena_bytes},
      {"what ranks exchange", "fewer ranks on this device", program.comm_bytes},
      {"places for states that rest in files", "zero1 over more ranks", program.staging_bytes()},
      {"inputs of a step", "a smaller train.batch", program.input_bytes}};
  for (const auto& [role, bytes] : state_bytes_by_role(program)) all.push_back(state_consumer(role, bytes));
  std::ranges::stable_sort(all, std::ranges::greater(), &Consumer::bytes);
  return all;
}

}  // namespace

void expect_room(const Program& program, size_t free_bytes) {
  if (program.peak_bytes() <= free_bytes) return;
  std::string list;
  const std::vector<Consumer> all = consumers(program);
  for (size_t i = 0; i < 3; ++i) {
    list += fmt::format("{}{}: {} (less with {})", i ? "; " : "", all[i].what, format_bytes(all[i].bytes),
                        all[i].help);
  }
  throw_error("the program needs {} of the device's memory, but {} are free. The largest: {}",
              format_bytes(program.peak_bytes()), format_bytes(free_bytes), list);
}

}  // namespace trireme
