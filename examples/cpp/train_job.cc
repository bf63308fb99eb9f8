// What `trireme train -n 2` does, in a program of your own: train_job [RANKS [PLAN]]. It starts the ranks,
// trains a small language model on its own source text, and prints the loss. Under mpirun, srun or torchrun
// it joins the ranks that they started instead.
#include <trireme/trireme.h>

#include <cstdio>
#include <cstdlib>

using namespace trireme;

// Rank 0's observer hears of the run.
class Report : public RunObserver {
 public:
  void started(const RunStart& run) override {
    std::printf("%ld parameters on %d ranks\n", static_cast<long>(run.parameters), run.plan.mesh.ranks());
  }
  void ended(const RunResult& result) override {
    std::printf("loss %.4f after %ld steps\n", result.loss, static_cast<long>(result.steps));
  }
};

int main(int argc, char** argv) try {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const ResolvedConfig config =
      resolve_config({.command_line = {"model.layers=2", "model.hidden=32", "model.heads=2", "model.seq=32",
                                       "train.batch=8", "train.steps=20", "train.threads=1",
                                       "run.dir=train_job", "run.resume=never", "run.sample_tokens=0"}});
  Report report;
  return run_training(
      config, report,
      {.launch = {.ranks = ranks}, .plan = argc > 2 ? argv[2] : "data", .default_text = __FILE__});
} catch (const Error& error) {
  return report_failure("train_job", error);
}
