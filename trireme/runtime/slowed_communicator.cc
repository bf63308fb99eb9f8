// See slowed_communicator.h.
#include "trireme/runtime/slowed_communicator.h"

#include <charconv>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

constexpr double kMostFactor = 1000;
constexpr std::chrono::microseconds kShortest{500};

template <typename T>
T number_of(std::string_view text, std::string_view part) {
  T number{};
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || end != part.data() + part.size())
    throw_error("--slow is '{}'; rank=2,factor=3 is of the form expected", text);
  return number;
}

}  // namespace

SlowRank parse_slow_rank(std::string_view text, int ranks) {
  SlowRank slow{-1, 0};
  for (const std::string& part : split(text, ',')) {
    const std::string_view view = part;
    if (view.starts_with("rank="))
      slow.rank = number_of<int>(text, view.substr(5));
    else if (view.starts_with("factor="))
      slow.factor = number_of<double>(text, view.substr(7));
    else
      throw_error("--slow is '{}'; rank=2,factor=3 is of the form expected", text);
  }
  if (slow.rank < 0 || slow.rank >= ranks)
    throw_error("--slow is '{}', of {} ranks; a rank from 0 to {} expected", text, ranks, ranks - 1);
  if (!(slow.factor >= 1 && slow.factor <= kMostFactor))
    throw_error("--slow is '{}'; a factor from 1 to {} expected", text, kMostFactor);
  return slow;
}

// Sleeping wakes late by some tens of microseconds: short waits are put together, and what was slept counts.
void SlowedCommunicator::catch_up() {
  const Clock::time_point begin = Clock::now();
  owed_ += (begin - computes_from_) * (factor_ - 1);
  if (owed_ < kShortest) return;
  std::this_thread::sleep_for(owed_);
  owed_ -= Clock::now() - begin;
}

}  // namespace trireme
