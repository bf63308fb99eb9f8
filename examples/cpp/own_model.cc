// Your own model on your own data: two spirals, wound into each other, and a small network that
// learns on which of them a point lies. Nothing of either is built into Trireme.
#include <trireme/trireme.h>

#include <cmath>
#include <cstdio>

using namespace trireme;

// Samples by number. What a sample holds follows from its number, so any rank can make it at any time.
class Spirals : public DataSet {
 public:
  int64_t size() const override { return 400; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }

  void write(int64_t /*epoch*/, int64_t index, int64_t row, Batch& batch) const override {
    const int32_t spiral = index % 2;
    const double radius = 0.2 + 0.8 * index / size(), angle = 7 * radius + M_PI * spiral;
    const std::span<float> point = batch.at("point").row<float>(row);
    point[0] = static_cast<float>(radius * std::cos(angle));
    point[1] = static_cast<float>(radius * std::sin(angle));
    batch.at("spiral").row<int32_t>(row)[0] = spiral;
  }
  void write_padding(int64_t row, Batch& batch) const override {
    std::ranges::fill(batch.at("point").row<float>(row), 0.0f);
    batch.at("spiral").row<int32_t>(row)[0] = kIgnoreTarget;
  }

 private:
  std::vector<SampleTensor> tensors_ = {{"point", DType::f32, {2}}, {"spiral", DType::i32, {}}};
};

// Layers with tanh, each added to what goes in, from a point [batch, 2] to logits [batch, 2].
ModelRecord spiral_model(const DataSet& data, int64_t width, int64_t layers) {
  const auto linear = [](Network& net, ValueId x, const std::string& name, int64_t outputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(net.shape(x).back()));
    return net.linear(x, name, outputs, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform);
  };
  ModelRecord model{.family = "spirals", .inputs = {data.tensors().begin(), data.tensors().end()}};
  model.logits = [=](Network& net, const ModelOptions&, ValueId point) {
    ValueId x = net.op("tanh", {linear(net, point, "in", width)});
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string name = "layers." + std::to_string(layer);
      x = net.op("add", {x, net.op("tanh", {linear(net, x, name, width)})});
    }
    return linear(net, x, "out", 2);
  };
  return model;
}

int main() try {
  const auto data = std::make_shared<Spirals>();
  const std::unique_ptr<Device> device = make_device({});
  Trainer trainer(spiral_model(*data, 32, 2), {}, {.kind = "adamw", .weight_decay = 0.01}, {.rows = 50},
                  *device);
  trainer.initialise(/*seed=*/1);

  Loader loader(data, {.batch = 50, .seed = 1});
  for (int64_t step = 0; step < 400; ++step) {
    const StepResult done = trainer.step(loader.next(), step, /*rate=*/0.01);
    if (step % 50 == 0) std::printf("step %3ld  loss %.4f\n", static_cast<long>(step), done.loss);
  }

  Evaluation result;
  Loader once(data, evaluation(50));
  for (bool more = true; more;) {
    Batch& batch = once.next();
    trainer.evaluate(batch, result);
    more = !batch.ends_epoch;
  }
  std::printf("%.0f of %.0f points are on the right spiral; loss %.4f\n", result.correct, result.count,
              result.loss);
  return result.count == 400 && result.correct > 380 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
