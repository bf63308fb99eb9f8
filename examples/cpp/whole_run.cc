// A whole run of your own model on your own data: checkpoints, metrics, validation and resuming are what
// `trireme train` has. The first run is stopped half way; the second one goes on from its checkpoint.
#include <trireme/trireme.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

using namespace trireme;

// Points in a square, and whether they lie inside a circle.
class Circle : public DataSet {
 public:
  explicit Circle(uint64_t seed) : seed_(seed) {}
  int64_t size() const override { return 512; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t /*epoch*/, int64_t index, int64_t row, Batch& batch) const override {
    const std::span<float> point = batch.at("point").row<float>(row);
    for (size_t i = 0; i < 2; ++i)
      point[i] = 2 * uniform({.seed = seed_, .stream = i}, static_cast<uint64_t>(index)) - 1;
    batch.at("inside").row<int32_t>(row)[0] = point[0] * point[0] + point[1] * point[1] < 0.5f;
  }
  void write_padding(int64_t row, Batch& batch) const override {
    std::ranges::fill(batch.at("point").row<float>(row), 0.0f);
    batch.at("inside").row<int32_t>(row)[0] = kIgnoreTarget;
  }

 private:
  uint64_t seed_;
  std::vector<SampleTensor> tensors_ = {{"point", DType::f32, {2}}, {"inside", DType::i32, {}}};
};

// Prints what a run tells, and stops it after so many steps.
class Report : public RunObserver {
 public:
  Report(std::atomic<bool>& stop, int64_t steps) : stop_(stop), steps_(steps) {}
  void started(const RunStart& run) override {
    std::printf("%ld parameters, %ld steps done before\n", static_cast<long>(run.parameters),
                static_cast<long>(run.steps_done));
  }
  void stepped(const StepMetrics& step) override { stop_ = step.step >= steps_; }
  void validated(const ValidationMetrics& held_out) override {
    std::printf("step %ld: held-out loss %.4f\n", static_cast<long>(held_out.step), held_out.loss);
  }

 private:
  std::atomic<bool>& stop_;
  int64_t steps_;
};

RunResult run(const std::string& folder, int64_t stop_after) {
  ModelRecord model{.family = "circle", .inputs = {{"point", DType::f32, {2}}, {"inside", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId x) {
    const ValueId hidden =
        net.op("tanh", {net.linear(x, "hidden", 32, Network::Store::kOutIn, Init::normal(1), Bias::kZeros)});
    return net.linear(hidden, "out", 2, Network::Store::kOutIn, Init::normal(0.2), Bias::kZeros);
  };
  const OpenedData data{.kind = "own",
                        .train = std::make_shared<Circle>(1),
                        .validation = std::make_shared<Circle>(2),
                        .summary = "points in a square"};
  const ResolvedConfig config =
      resolve_config({.command_line = {"train.batch=64", "train.steps=400", "train.eval_every=100",
                                       "optim.lr=0.02", "run.checkpoint_every=100", "run.dir=" + folder}},
                     &model);
  std::atomic<bool> stop = false;
  Report report(stop, stop_after);
  return run_training(config, model, data, {.stop = &stop}, report);
}

int main() try {
  const std::string folder = (std::filesystem::temp_directory_path() / "trireme-circle").string();
  std::filesystem::remove_all(folder);
  const RunResult half = run(folder, 200), whole = run(folder, 400);
  std::printf("stopped after %ld steps, ended after %ld with a loss of %.4f\n", static_cast<long>(half.steps),
              static_cast<long>(whole.steps), whole.loss);
  return half.steps == 200 && whole.steps == 400 && whole.loss < 0.2 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
