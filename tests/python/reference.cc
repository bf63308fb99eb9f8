// What programs in Python must compute to the last bit, in C++: a small network on points, by a Trainer or in
// a whole run.
//
//   python_reference steps RANKS          losses of 40 steps, then the weights, of RANKS ranks that are
//   threads python_reference run RANKS FOLDER     a run in FOLDER, of RANKS processes
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "trireme/trireme.h"

namespace {

using namespace trireme;

constexpr int64_t kPoints = 256, kRows = 32, kSteps = 40;

float coordinate(int64_t point, int dim) {
  const int64_t number = dim == 0 ? point * 37 % 101 - 50 : point * 53 % 89 - 44;
  return static_cast<float>(number) / 64;
}

class Points : public DataSet {
 public:
  int64_t size() const override { return kPoints; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t, int64_t index, int64_t row, Batch& batch) const override {
    const std::span<float> x = batch.at("x").row<float>(row);
    for (int dim : {0, 1}) x[static_cast<size_t>(dim)] = coordinate(index, dim);
    batch.at("class").row<int32_t>(row)[0] = x[0] * x[1] > 0;
  }
  void write_padding(int64_t row, Batch& batch) const override {
    batch.at("class").row<int32_t>(row)[0] = kIgnoreTarget;
  }

 private:
  std::vector<SampleTensor> tensors_ = {{"x", DType::f32, {2}}, {"class", DType::i32, {}}};
};

ModelRecord network() {
  ModelRecord model{.family = "points", .inputs = {{"x", DType::f32, {2}}, {"class", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId x) {
    const auto linear = [&](ValueId input, const char* name, int64_t outputs) {
      const double bound = 1 / std::sqrt(static_cast<double>(net.shape(input).back()));
      return net.linear(input, name, outputs, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform);
    };
    return linear(net.op("tanh", {linear(x, "hidden", 32)}), "out", 2);
  };
  return model;
}

void train_steps(const RankOptions& ranks) {
  TrainOptions train;
  train.batch = kRows;
  const std::unique_ptr<Device> device = make_device({});
  Trainer trainer(network(), train, {.kind = "adamw", .lr = 0.01}, {.rows = kRows}, *device, ranks);
  trainer.initialise(/*seed=*/1);
  Loader loader(std::make_shared<Points>(), {.batch = kRows, .order = SampleOrder::sequential});
  for (int64_t step = 0; step < kSteps; ++step) {
    const StepResult done = trainer.step(loader.next(), step, /*rate=*/0.01);
    if (ranks.rank == 0) fmt::print("{}\n", done.loss);
  }
  if (ranks.rank != 0) return;
  for (const std::string& name : parameter_names(trainer)) {
    for (const float weight : read_tensor(trainer, name)) fmt::print("{}\n", weight);
  }
}

int whole_run(int ranks, const std::string& folder) {
  const ModelRecord model = network();
  const ResolvedConfig config = resolve_config(
      {.command_line = {"train.batch=32", "train.steps=40", "optim.lr=0.01", "run.dir=" + folder}}, &model);
  JobOptions job{.launch = {.ranks = ranks}, .model = &model};
  job.open_data = [](const Config&) {
    return OpenedData{.kind = "own", .train = std::make_shared<Points>(), .summary = "points"};
  };
  RunObserver nobody;
  return run_training(config, nobody, job);
}

}  // namespace

int main(int argc, char** argv) try {
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 1;
  if (argc > 3 && std::string_view(argv[1]) == "run") return whole_run(ranks, argv[3]);
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    if (ranks == 1) return train_steps({});
    const Plan plan = read_plan("data", ranks);
    MeshCommunicator communicator(plan.mesh, context);
    train_steps({plan, context.rank(), &communicator});
  });
  return 0;
} catch (const Error& error) {
  return report_failure("python_reference", error);
}
