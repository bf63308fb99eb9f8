// What lies between the steps: gradients and weights as numbers, a learning rate that follows the loss, a run
// that is saved and resumes from its checkpoint as if it had never stopped. The model fits a curve,
// with a loss of its own.
#include <trireme/trireme.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace trireme;

constexpr int64_t kRows = 64;

ModelRecord curve_model() {
  ModelRecord model{.family = "curve", .inputs = {{"x", DType::f32, {1}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    const auto linear = [&](ValueId x, const char* name, int64_t outputs) {
      return net.linear(x, name, outputs, Network::Store::kInOut, Init::normal(0.5), Bias::kZeros);
    };
    const ValueId hidden = net.op("tanh", {linear(inputs[0], "hidden", 32)});
    return net.squared_error(linear(hidden, "out", 1), inputs[1]);
  };
  return model;
}

// One batch for all steps: the curve at places between -2 and 2.
Batch curve() {
  Batch batch;
  batch.rows = kRows;
  for (const char* name : {"x", "y"})
    batch.tensors.emplace_back(name, HostTensor()).second.reset(DType::f32, {kRows, 1});
  for (int64_t i = 0; i < kRows; ++i) {
    const float x = -2 + 4 * static_cast<float>(i) / kRows;
    batch.at("x").row<float>(i)[0] = x;
    batch.at("y").row<float>(i)[0] = std::sin(3 * x);
  }
  return batch;
}

// Halves the rate when the loss has not fallen for a while.
struct Plateau {
  double rate = 0.02, best = INFINITY;
  int since = 0;
  void see(double loss) {
    since = loss < 0.99 * best ? 0 : since + 1;
    best = std::min(best, loss);
    if (since == 40) rate /= 2, since = 0;
  }
};

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

double loss_at(Trainer& trainer, Batch& batch) {
  Evaluation result;
  trainer.evaluate(batch, result);
  return result.loss;
}

// The gradient of one weight against the slope that moving the weight finds.
bool gradient_is_slope(Trainer& trainer, Batch& batch) {
  const std::vector<float> weights = read_tensor(trainer, "out.weight");
  trainer.forward_backward(batch, 0);
  const double gradient = read_gradient(trainer, "out.weight")[5];
  double losses[2];
  for (const int side : {0, 1}) {
    std::vector<float> moved = weights;
    moved[5] += side == 0 ? -1e-2f : 1e-2f;
    write_tensor(trainer, "out.weight", moved);
    losses[side] = loss_at(trainer, batch);
  }
  write_tensor(trainer, "out.weight", weights);
  const double slope = (losses[1] - losses[0]) / 2e-2;
  std::printf("gradient %.5f, slope %.5f\n", gradient, slope);
  return std::abs(gradient - slope) < 1e-3;
}

int main() try {
  const std::string folder = std::filesystem::temp_directory_path() / "trireme_look_inside";
  const std::unique_ptr<Device> device = make_device({});
  const auto make_trainer = [&] {
    return Trainer(curve_model(), {.clip_norm = 0}, {.kind = "adam", .weight_decay = 0}, {.rows = kRows},
                   *device);
  };
  Batch batch = curve();
  Trainer trainer = make_trainer();
  trainer.initialise(/*seed=*/1);
  const bool slope = gradient_is_slope(trainer, batch);

  Checkpoints checkpoints(folder, /*keep=*/1);
  Plateau plateau;
  std::vector<double> rates;
  const double first = loss_at(trainer, batch);
  for (int64_t step = 0; step < 400; ++step) {
    trainer.forward_backward(batch, step);
    if (step % 100 == 0) {
      for (const std::string& name : parameter_names(trainer))
        std::printf("step %3ld  %-13s weights %.3f  gradient %.4f\n", static_cast<long>(step), name.c_str(),
                    norm(read_tensor(trainer, name)), norm(read_gradient(trainer, name)));
    }
    rates.push_back(plateau.rate);
    plateau.see(trainer.update(step, plateau.rate).loss);
    if (step + 1 == 300) save(checkpoints, {.step = step + 1}, trainer);
  }
  const double last = loss_at(trainer, batch);
  std::printf("loss %.4f before, %.4f after; the rate ended at %g\n", first, last, plateau.rate);

  Trainer again = make_trainer();
  const LoadedCheckpoint saved = *checkpoints.load_latest();
  restore(again, saved);
  for (int64_t step = saved.state.step; step < 400; ++step) again.step(batch, step, rates[step]);
  bool same = true;
  for (const std::string& name : parameter_names(trainer))
    same = same && read_tensor(trainer, name) == read_tensor(again, name);
  std::printf("gone on from step %ld: the same weights%s\n", static_cast<long>(saved.state.step),
              same ? "" : " NOT");
  std::filesystem::remove_all(folder);
  return slope && same && last < 0.1 * first ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
