#include "trireme/place/workflow_file.h"

#include <gmock/gmock.h>

#include "trireme/base/error.h"

namespace trireme::place {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A small model answers, and asks a larger one for what it is not sure of.
constexpr const char* kCascade = R"(
accuracy = 0.9
tiers = ["edge", "cloud"]
[[link]]
from = "edge"
to = "cloud"
price_per_gigabyte = 0.1
speed = "latency=20ms,bandwidth=8Mbit"
[[worker]]
name = "box"
price_per_hour = 0.1
count = 3
[[worker]]
name = "gpu"
tier = "cloud"
price_per_hour = 2
[[source]]
name = "camera"
rate = 100
kilobytes = 12
held_out = "runs/small"
[[op]]
name = "small"
inputs = ["camera"]
[[op.variant]]
name = "resnet"
kilobytes = 12
milliseconds = {box = 20, gpu = 1}
accuracy = 0.8
run = "runs/small"
weights = "step-00000060 0123456789abcdef"
tokens = 8
[[op]]
name = "large"
inputs = ["small"]
ratios = [0.25]
[[op.variant]]
name = "resnet"
milliseconds = {gpu = 10}
accuracy = [[0.7, 0.91], [0.85, 0.95]]
)";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kCascade;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& toml) {
  try {
    parse_workflow(toml, "w.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WorkflowFile, IsRead) {
  const Workflow workflow = parse_workflow(kCascade, "w.toml");
  EXPECT_EQ(workflow.workers[0].count, 3);
  EXPECT_EQ(workflow.workers[1].tier, 1);
  EXPECT_THAT(required_rates(workflow), ElementsAre(100, 25));
  EXPECT_EQ(workflow.ops[0].variants[0].seconds[0], 0.02);
  EXPECT_EQ(workflow.ops[1].variants[0].seconds[0], std::nullopt);
  // 0.8 reaches the first point of the larger model and not the second.
  EXPECT_EQ(accuracy_of(workflow, {0, 0}), 0.91);
  EXPECT_EQ(accuracy_of(workflow, {kAnyVariant, kAnyVariant}), 0.91);
  // One message of 12 KB a second for an hour, at 0.1 a GB.
  EXPECT_DOUBLE_EQ(workflow.price_of_messages(0, 1, 12).value(), 12 * 3600 * 0.1 / (1024 * 1024));
  EXPECT_EQ(workflow.price_of_messages(1, 1, 12), 0);
  EXPECT_EQ(workflow.price_of_messages(1, 0, 12), std::nullopt);
  EXPECT_EQ(workflow.links[0].speed.latency_seconds, 0.02);
  EXPECT_EQ(workflow.links[0].speed.bytes_per_second, 1e6);
  EXPECT_EQ(workflow.sources[0].held_out, "runs/small");
  const Variant& variant = workflow.ops[0].variants[0];
  EXPECT_EQ(variant.run, "runs/small");
  EXPECT_EQ(variant.weights, "step-00000060 0123456789abcdef");
  EXPECT_EQ(variant.tokens, 8);
}

TEST(WorkflowFile, IsRefusedWithWhatIsWrong) {
  EXPECT_THAT(refusal("accuracy = "), HasSubstr("w.toml:1: not TOML"));
  EXPECT_THAT(refusal(""), HasSubstr("there is no [[op]]"));
  EXPECT_THAT(refusal(changed("rate = 100", "speed = 100")), HasSubstr("[[source]] has no key 'speed'"));
  EXPECT_THAT(refusal(changed("rate = 100", "rate = 0")),
              HasSubstr("source 'camera' has rate 0; more than 0 expected"));
  EXPECT_THAT(refusal(changed("tier = \"cloud\"", "tier = \"clouds\"")),
              HasSubstr("worker 'gpu' names tier 'clouds'; did you mean 'cloud'?"));
  EXPECT_THAT(
      refusal(changed("inputs = [\"small\"]", "inputs = [\"smal\"]")),
      HasSubstr("op 'large' takes 'smal', which is no source and no op before it; did you mean 'small'?"));
  EXPECT_THAT(refusal(changed("inputs = [\"small\"]", "inputs = [\"camera\"]")),
              HasSubstr("nothing takes the outputs of op 'small'"));
  EXPECT_THAT(refusal(changed("{gpu = 10}", "{gqu = 10}")),
              HasSubstr("there is no worker 'gqu'; did you mean 'gpu'?"));
  EXPECT_THAT(refusal(changed("{gpu = 10}", "{}")), HasSubstr("runs on no worker"));
  EXPECT_THAT(refusal(changed("{gpu = 10}", "{gpu = 0}")), HasSubstr("takes 0 s on 'gpu'"));
  EXPECT_THAT(refusal(changed("[0.7, 0.91]", "[0.91]")),
              HasSubstr("has 1 numbers; one for each of 1 inputs that are ops, and its own, expected"));
  EXPECT_THAT(refusal(changed("accuracy = 0.8", "")), HasSubstr("has no accuracy"));
  EXPECT_THAT(refusal(changed("ratios = [0.25]", "ratios = [0.25, 1]")),
              HasSubstr("has 2 ratios for 1 inputs"));
  EXPECT_THAT(refusal(changed("name = \"large\"", "name = \"small\"")),
              HasSubstr("there is a second op 'small'"));
  EXPECT_THAT(refusal(changed("latency=20ms,", "latency=20,")),
              HasSubstr("the speed of the link from 'edge' to 'cloud': --link has latency=20;"));
  EXPECT_THAT(refusal(changed("latency=20ms,", "jitter=20ms,")),
              HasSubstr("has jitter, which is not simulated"));
  EXPECT_THAT(refusal(changed("count = 3", "count = 0")), HasSubstr("worker 'box' has count 0"));
}

}  // namespace
}  // namespace trireme::place
