// The loop written out, with gradient accumulation: a batch that does not fit in memory is gone through in
// microbatches, and the weights change once at its end. Losses and gradients are sums over targets with their
// count beside them, so that the result is that of the whole batch, also where microbatches are uneven.
#include <trireme/trireme.h>

#include <cmath>
#include <cstdio>

using namespace trireme;

constexpr int64_t kBatch = 16, kSteps = 60;

// Losses by step, and how much memory it took.
std::vector<double> train(const OpenedData& data, int64_t microbatches, size_t& bytes) {
  const ModelOptions model{
      .family = "gpt", .layers = 2, .heads = 2, .hidden = 32, .vocab = data.vocab, .seq = 32};
  const std::unique_ptr<Device> device = make_device({});
  Trainer trainer(model, {.accumulate = microbatches}, {},
                  {.rows = kBatch / microbatches, .sample = data.input}, *device);
  trainer.initialise(/*seed=*/1);
  bytes = trainer.program().peak_bytes();

  Loader loader(data.train, {.batch = kBatch / microbatches, .seed = 1});
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < microbatches; ++i)
      trainer.forward_backward(loader.next(), step, i);  // the first replaces what was added up, others add
    const StepResult done = trainer.update(step, /*rate=*/0.005);
    if (step % 20 == 0) std::printf("step %2ld  loss %.4f\n", static_cast<long>(step), done.loss);
    losses.push_back(done.loss);
  }
  return losses;
}

int main(int argc, char** argv) try {
  const OpenedData data = open_data({.kind = "text", .path = argc > 1 ? argv[1] : __FILE__, .seq = 32});
  size_t small = 0, large = 0;
  const std::vector<double> parts = train(data, 4, small), whole = train(data, 1, large);
  double apart = 0;
  for (int64_t step = 0; step < kSteps; ++step) apart = std::max(apart, std::abs(parts[step] - whole[step]));
  std::printf("four microbatches (%zu KiB) and one batch (%zu KiB): losses at most %.1e apart\n",
              small / 1024, large / 1024, apart);
  return apart < 1e-3 && small < large && parts.back() < 0.8 * parts.front() ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
