// See rank_alone.h.
#include "trireme/bench/rank_alone.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "trireme/bench/train_steps.h"
#include "trireme/exchange/choice.h"
#include "trireme/plan/agreement.h"

namespace trireme::bench {
namespace {

constexpr int kSteps = 4;

// The first step behind all warm-ups.
int64_t first_usual_step(const Plan& plan) {
  const std::vector<int64_t> ends = early_ends(exchange_choices(plan.agreement));
  return ends.empty() ? 0 : ends.back();
}

}  // namespace

Communicator::Place EchoCommunicator::place(std::string_view axis) const {
  const int number = mesh_.axis(axis);
  return {mesh_.coordinate(rank_, number), mesh_.axes()[static_cast<size_t>(number)].size};
}

void EchoCommunicator::start(const Collective& call) {
  if (call.kind != CollectiveKind::kAllGather) return;  // sums are this rank's own
  const auto [rank, ranks] = place(call.axis);
  const Part own = call.parts().of(ranks, rank);
  const size_t width = size_of(call.dtype);
  for (int way = 0; way < ranks; ++way) {
    const Part part = call.parts().of(ranks, way);
    if (way == rank) continue;
    std::byte* const to = call.data + static_cast<size_t>(part.begin) * width;
    std::memset(to, 0, static_cast<size_t>(part.size) * width);
    std::memcpy(to, call.data + static_cast<size_t>(own.begin) * width,
                static_cast<size_t>(std::min(own.size, part.size)) * width);
  }
}

void EchoCommunicator::start_receive(int, std::byte* data, int64_t bytes, int tag) {
  std::memset(data, 0, static_cast<size_t>(bytes));
  awaited_.push_back({data, bytes, tag});
}

void EchoCommunicator::start_send(int, const std::byte* data, int64_t bytes, int tag) {
  std::erase_if(awaited_, [&](const Message& message) {
    if (message.bytes != bytes || message.tag != tag) return false;
    std::memcpy(message.data, data, static_cast<size_t>(bytes));
    return true;
  });
}

void EchoCommunicator::wait(const std::byte* data) {
  std::erase_if(awaited_, [&](const Message& message) { return message.data == data; });
}

void EchoCommunicator::all_to_all(const AllToAll& call) {
  std::memset(call.to, 0, call.gotten_bytes());
  std::memcpy(call.to, call.from, std::min(call.given_bytes(), call.gotten_bytes()));
}

std::shared_ptr<std::byte> EchoCommunicator::allocate(size_t bytes) {
  return {static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})),
          [](std::byte* data) { ::operator delete (data, std::align_val_t{64}); }};
}

double seconds_of_rank_alone(const StepSetup& setup, Plan plan) {
  if (plan.agreement.servers()) plan.agreement = {};
  EchoCommunicator echo(plan.mesh, 0);
  const StepQuestion question{
      .steps = kSteps, .warmup = 1, .first = first_usual_step(plan), .peak = false, .products = {}};
  return time_steps(setup, question, {{plan, 0, &echo}, nullptr}, [](const StepReport&) {}).least_seconds;
}

}  // namespace trireme::bench
