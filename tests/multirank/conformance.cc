// Gathers the cases and gives them to GoogleTest; see conformance.h.
#include "tests/multirank/conformance.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

class ConformanceTest : public testing::Test {
 public:
  ConformanceTest(Harness& harness, Case what) : harness_(harness), case_(std::move(what)) {}
  void TestBody() override {
    for (const std::string& line : harness_.run(case_.ranks, case_.body)) ADD_FAILURE() << line;
  }

 private:
  Harness& harness_;
  Case case_;
};

}  // namespace

std::vector<Case> conformance_cases(std::span<const int> rank_counts) {
  std::vector<Case> cases;
  add_message_cases(cases, rank_counts);
  add_failure_cases(cases, rank_counts);
  add_collective_cases(cases, rank_counts);
  add_group_cases(cases, rank_counts);
  add_bits_cases(cases, rank_counts);
  return cases;
}

void register_conformance(Harness& harness) {
  for (const Case& each : conformance_cases(harness.rank_counts())) {
    testing::RegisterTest(
        std::string(harness.name()).c_str(), each.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&harness, each]() -> testing::Test* { return new ConformanceTest(harness, each); });
  }
}

PeerError expect_peer_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const PeerError& error) {
    return error;
  }
  throw_error("expected a PeerError, but nothing was thrown");
}

void expect_contains(std::string_view text, std::string_view part) {
  expect(text.find(part) != std::string_view::npos, "expected '{}' in: {}", part, text);
}

}  // namespace trireme::comm
