// What utilisation counts (docs/simulator.md): the model's FLOPs on paper, and what ranks execute against
// them.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/mesh/cluster_file.h"
#include "trireme/models/model.h"
#include "trireme/run/config.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

struct Setting {
  Config config;
  StepShape shape;

  Setting(const std::string& family, int64_t batch, int64_t accumulate = 1) {
    config = resolve_config({.command_line = {"data.path=none", "model.family=" + family}}).config;
    config.model.vocab = 64;
    config.model.classes = 10;
    config.train.batch = batch;
    config.train.accumulate = accumulate;
    const ModelRecord& record = find_model(config.model.family);
    config.model.seq = std::min<int64_t>(config.model.seq, 32);
    config.model = record.with_automatic_sizes(config.model);
    shape = {batch / accumulate, record.usual_sample(config.model)};
  }

  double asked_for() const { return model_flops(config.model, config.train, shape); }
  double executed(const std::string& plan_text) const {
    const Plan plan = parse_plan(plan_text, "test");
    const StepPrograms programs(config.model, config.train, config.optim, shape, plan);
    const Cluster cluster = with_hosts(read_cluster("a100"), 1);
    return simulate(DeviceMap(plan.mesh, cluster), [&](int rank) { return programs.rank(rank, nullptr); })
        .flops;
  }
};

Setting gpt_setting() {
  Setting gpt("gpt", 16);
  gpt.config.model.layers = 4;
  gpt.config.model.heads = 4;
  gpt.config.model.hidden = 32;
  gpt.config.model.feed_forward = 4 * 32;
  gpt.config.model.seq = 16;
  gpt.shape = {16, Shape{16}};
  return gpt;
}

// 24h² forward for each token and layer and 2hV in the head, twice that backward; attention has 2 products
// forward and 5 backward of T²h multiplications and additions, of which causal attention skips half.
TEST(ModelFlops, OfATransformerOnPaper) {
  EXPECT_EQ(gpt_setting().asked_for(),
            3. * (4 * 24 * 32 * 32 + 2 * 32 * 64) * 16 * 16 + 7. * 4 * 16 * 16 * 32 * 16);
}

// Convolutions of 6·28²·25 and 16·10²·150 multiplications, then 400·120 + 120·84 + 84·10; nobody asks for the
// gradient of the images.
TEST(ModelFlops, OfLeNetOnPaper) {
  Setting lenet("lenet", 2);
  const double first = 6 * 28 * 28 * 25., second = 16 * 10 * 10 * 150.,
               linear = 400 * 120 + 120 * 84 + 84 * 10.;
  EXPECT_EQ(lenet.asked_for(), 2 * 2 * (2 * first + 3 * second + 3 * linear));
}

// Sums over ranks repeat no product; zero3 and recomputation do.
TEST(ModelFlops, AreAtMostWhatIsExecutedAndEqualWhereNothingIsRepeated) {
  for (const std::string& family : model_families()) {
    SCOPED_TRACE(family);
    const Setting setting(family, 4, 2);
    const double asked_for = setting.asked_for();
    EXPECT_DOUBLE_EQ(setting.executed(R"({"mesh": "data:2"})"), asked_for);
    for (const char* plan :
         {R"({"mesh": "data:2", "preset": "zero3"})", R"({"mesh": "data:2", "recompute": "full"})"})
      EXPECT_GE(setting.executed(plan), asked_for) << plan;
  }
}

// A layer runs again but for its last product: 24h² − 8h², and attention's 2 products.
TEST(ModelFlops, DoNotCountWhatIsMadeAgain) {
  const Setting gpt = gpt_setting();
  EXPECT_DOUBLE_EQ(gpt.executed(R"({"mesh": "data:2", "recompute": "full"})") - gpt.asked_for(),
                   (4. * 16 * 32 * 32 * 16 + 4 * 2. * 16 * 16 * 32) * 16);
}

}  // namespace
}  // namespace trireme::sim
