// The loop written out, in mixed precision: activations and gradients in f16, weights in f32, and a factor on
// the loss so that small gradients are not lost. Learns the text of this file, or of the one that is named.
#include <trireme/trireme.h>

#include <cstdio>

using namespace trireme;

int main(int argc, char** argv) try {
  const OpenedData data = open_data({.kind = "text", .path = argc > 1 ? argv[1] : __FILE__, .seq = 32});
  const ModelOptions model{
      .family = "gpt", .layers = 2, .heads = 2, .hidden = 32, .vocab = data.vocab, .seq = 32};
  const std::unique_ptr<Device> device = make_device({});
  Trainer trainer(model, {.precision = "f16"}, {}, {.rows = 8, .sample = data.input}, *device);
  trainer.initialise(/*seed=*/1);

  Loader loader(data.train, {.batch = 8, .seed = 1});
  int skipped = 0;
  double first = 0, last = 0;
  for (int64_t step = 0; step < 80; ++step) {
    Batch& batch = loader.next();
    if (step == 20) trainer.loss_scale *= 4096;  // far too large, to see what happens then

    trainer.forward_backward(batch, step);  // of the loss times trainer.loss_scale
    const std::vector<float> before = read_tensor(trainer, "wte.weight");
    const StepResult done =
        trainer.update(step, /*rate=*/0.005);  // divides by it; a gradient that overflowed
    if (done.skipped) {                        // changes nothing but the scale, which is halved
      ++skipped;
      if (read_tensor(trainer, "wte.weight") != before)
        throw Error("a step that was skipped changed the weights");
      std::printf("step %2ld  overflow; the loss scale is %g now\n", static_cast<long>(step),
                  trainer.loss_scale);
    } else if (step % 10 == 0) {
      std::printf("step %2ld  loss %.3f\n", static_cast<long>(step), done.loss);
    }
    (step == 0 ? first : last) = done.loss;
  }
  return skipped > 0 && last < 0.8 * first ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
