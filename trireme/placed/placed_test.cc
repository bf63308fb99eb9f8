// Placed workflows of small functions in the place of models, as real processes over tcp.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/support/times.h"
#include "trireme/comm/transport/emulated/emulated.h"
#include "trireme/comm/transport/tcp/test_job.h"
#include "trireme/place/workflow_file.h"
#include "trireme/placed/feed.h"
#include "trireme/placed/report.h"

namespace trireme::placed {
namespace {

using testing::HasSubstr;

// A message of 8 bytes and its number go to two ops, of which a third adds up what they make.
constexpr const char* kSums = R"(
tiers = ["edge", "cloud"]
[[link]]
from = "edge"
to = "cloud"
price_per_gigabyte = 100
speed = "latency=30ms,bandwidth=1Mbit"
[[worker]]
name = "box"
count = 3
price_per_hour = 1
[[worker]]
name = "gpu"
tier = "cloud"
count = 2
price_per_hour = 10
[[source]]
name = "numbers"
rate = 40
kilobytes = 0.015625
[[op]]
name = "double"
inputs = ["numbers"]
[[op.variant]]
name = "x"
kilobytes = 0.015625
milliseconds = {box = 20, gpu = 5}
accuracy = 1
[[op]]
name = "negate"
inputs = ["numbers"]
[[op.variant]]
name = "x"
kilobytes = 0.015625
milliseconds = {gpu = 5}
accuracy = 1
[[op]]
name = "add"
inputs = ["double", "negate"]
[[op.variant]]
name = "x"
kilobytes = 0.015625
milliseconds = {gpu = 10}
accuracy = [[1, 1, 1]]
)";

// Two boxes double, three quarters of them; a GPU does the rest and negates, another one adds.
Job sums(int64_t requests, bool shared = false) {
  place::Workflow workflow = place::parse_workflow(kSums, "sums");
  workflow.shared = shared;
  place::Placement placement{
      .variants = {0, 0, 0},
      .shares = {{0, 0, 40}, {1, 1, 40}, {2, 1, 40}},
      .traffic = {{0, 0, 0, 0, 40}, {1, 0, 0, 1, 40}, {2, 0, 0, 1, 40}, {2, 1, 1, 1, 40}},
      .rented = {{2, 0}, {0, 1}, {0, 1}}};
  if (shared) placement.rented = {{2, 1}};
  return make_job(workflow, placement, {.count = requests, .variation = 0, .seed = 3});
}

Bytes bytes_of_number(int64_t value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
int64_t number_of_bytes(const Bytes& bytes) {
  int64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Made calculate(int op, std::span<const Bytes> inputs) {
  const int64_t first = number_of_bytes(inputs[0]);
  const int64_t value = op == 0 ? 2 * first : op == 1 ? -first : first + number_of_bytes(inputs[1]);
  return {bytes_of_number(value), std::to_string(value)};
}

// What rank 0 reports, as JSON and the lines of answers; "error: …" where it fails. A worker that is to die
// does so after some items.
std::vector<std::string> run_job(const Job& job, int dies = -1, const Maker& make = calculate) {
  const comm::TestPlace place;
  comm::TestRanks ranks(job.ranks(), [&](int rank) -> std::string {
    Mail mail;
    comm::EmulatedTransport transport(place.transport(rank, job.ranks()), links_between(job));
    if (rank > 0) {
      int made = 0;
      work(job, rank, transport, mail, [&](int op, std::span<const Bytes> inputs) {
        if (rank == dies && ++made == 5) raise(SIGKILL);
        return make(op, inputs);
      });
      return "";
    }
    const RunReport report = feed(
        job, transport, mail, [](int, int64_t request) { return bytes_of_number(request); }, 10);
    if (!report.lost.empty())
      return fmt::format("{} of {}: {}", report.answered, report.requests, report.lost);
    const auto json = to_json(job, simulated(job), measured(job, report), report);
    return json.dump() + "\n" + answer_lines(job, report);
  });
  return ranks.reports();
}

TEST(Placed, EveryRequestIsAnsweredByTheWorkersThatWereRented) {
  const Job job = sums(60);
  const std::vector<std::string> said = run_job(job);
  ASSERT_THAT(said[0], HasSubstr("{\"requests\":60,\"answered\":60,"));
  for (int request = 0; request < 60; ++request)
    EXPECT_THAT(said[0],
                HasSubstr(fmt::format("{{\"request\":{},\"double\":\"{}\",\"negate\":\"{}\",\"add\":\"{}\"}}",
                                      request, 2 * request, -request, request)));
  // Half of the numbers to each box; of every message the bytes, and so the cost, are those that the
  // simulation counts.
  EXPECT_THAT(said[0], HasSubstr("{\"worker\":\"box/0\",\"items\":30,"));
  EXPECT_THAT(said[0], HasSubstr("{\"worker\":\"box/1\",\"items\":30,"));
  const std::string link = "\"links\":[{\"from\":\"edge\",\"to\":\"cloud\",\"bytes\":1920.0}]";
  const size_t first = said[0].find(link);
  ASSERT_NE(first, std::string::npos) << said[0];
  EXPECT_NE(said[0].find(link, first + 1), std::string::npos) << said[0];
  for (int rank = 1; rank < job.ranks(); ++rank) EXPECT_EQ(said[rank], "");
}

// 40 numbers a second, each of which takes 20 ms at the edge, 30 ms to the cloud and 10 ms there.
TEST(Placed, TimesAreThoseOfTheSimulation) {
  const Job job = sums(80);
  const Comparison expected = simulated(job);
  EXPECT_NEAR(expected.median, 0.060, 0.001);
  const std::vector<std::string> said = run_job(job);
  double per_second = 0, median = 0;
  const size_t at = said[0].find("\"measured\":{\"answers_per_second\":");
  ASSERT_NE(at, std::string::npos) << said[0];
  ASSERT_EQ(
      std::sscanf(said[0].c_str() + at, "\"measured\":{\"answers_per_second\":%lf,\"median_seconds\":%lf",
                  &per_second, &median),
      2);
  EXPECT_NEAR(per_second, expected.per_second, 0.15 * expected.per_second);
  EXPECT_GE(median, 0.060);
  EXPECT_LE(median, 0.060 * 1.3 + slack_seconds());
}

TEST(Placed, AWorkerMayHaveSeveralOps) {
  const std::vector<std::string> said = run_job(sums(40, /*shared=*/true));
  EXPECT_THAT(said[0], HasSubstr("\"answered\":40,"));
  EXPECT_THAT(said[0], HasSubstr("{\"request\":39,\"double\":\"78\",\"negate\":\"-39\",\"add\":\"39\"}"));
  EXPECT_THAT(said[0], HasSubstr("{\"worker\":\"gpu/0\",\"items\":80,"));
}

TEST(Placed, AWorkerThatDiesIsNamedAndEndsTheRun) {
  const std::vector<std::string> said = run_job(sums(200), /*dies=*/3);
  EXPECT_THAT(said[0], HasSubstr(" of 200: worker gpu/0 (rank 3), which runs negate: rank 3 at"));
  EXPECT_THAT(said[3], HasSubstr("signal 9"));
  // What was done before is kept, and the others go without an error of their own.
  EXPECT_GE(std::stoi(said[0]), 1);
  for (const int rank : {1, 2, 4}) EXPECT_EQ(said[rank], "") << rank;
}

TEST(Placed, WhatCanNotRunIsRefused) {
  place::Workflow workflow = sums(1).workflow;
  const place::Placement placement = sums(1).placement;
  const auto refusal = [&] {
    try {
      make_job(workflow, placement, {.count = 1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "");
  workflow.ops[1].variants[0].kilobytes = 0.015;
  EXPECT_THAT(refusal(), HasSubstr("op 'negate' has messages of 0.015 kilobytes, which is 15.36 bytes"));
}

}  // namespace
}  // namespace trireme::placed
