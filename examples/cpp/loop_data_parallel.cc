// The loop written out, on several ranks: each has the whole model, takes its rows of every batch, and
// gradients are added up between backward and update. Run it by any launcher, or let it start its own ranks:
//
//   mpirun -n 4 loop_data_parallel      torchrun …, srun …      loop_data_parallel 4
#include <trireme/trireme.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace trireme;

constexpr int64_t kBatch = 16, kSteps = 60;

// Losses by step. The batch is that of all ranks together; of one rank, `ranks` is empty.
std::vector<double> train(const OpenedData& data, const RankOptions& ranks) {
  const ModelOptions model{
      .family = "gpt", .layers = 2, .heads = 2, .hidden = 32, .vocab = data.vocab, .seq = 32};
  const std::unique_ptr<Device> device = make_device({});
  Trainer trainer(model, {}, {}, {.rows = kBatch, .sample = data.input}, *device, ranks);
  trainer.initialise(/*seed=*/1);  // the same weights on all ranks

  // Every epoch in another order, which all ranks know; each makes the rows that are its own.
  Loader loader(data.train, {.batch = kBatch, .seed = 1, .parts = trainer.own_rows()});
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    Batch& batch = loader.next();
    trainer.forward_backward(batch, step);
    const StepResult done = trainer.update(step, /*rate=*/0.005);
    if (ranks.rank == 0 && step % 20 == 0)
      std::printf("epoch %ld  step %2ld  loss %.4f\n", static_cast<long>(batch.position.epoch),
                  static_cast<long>(step), done.loss);
    losses.push_back(done.loss);
  }
  return losses;
}

int run_rank(comm::Context& context) {
  const OpenedData data = open_data({.kind = "text", .path = __FILE__, .seq = 32});
  const Plan plan = read_plan("data", context.ranks());
  MeshCommunicator communicator(plan.mesh, context);
  const std::vector<double> losses = train(data, {plan, context.rank(), &communicator});
  if (context.rank() != 0) return 0;

  std::printf("the same on one rank:\n");
  const std::vector<double> alone = train(data, {});
  double apart = 0;
  for (int64_t step = 0; step < kSteps; ++step) apart = std::max(apart, std::abs(losses[step] - alone[step]));
  std::printf("losses of %d ranks and of one are at most %.1e apart\n", context.ranks(), apart);
  return apart < 1e-3 && losses.back() < 0.8 * losses.front() ? 0 : 1;
}

int main(int argc, char** argv) try {
  return comm::run_launched({.ranks = argc > 1 ? std::atoi(argv[1]) : 0}, run_rank);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
