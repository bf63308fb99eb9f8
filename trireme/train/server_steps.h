// The steps of a server, or of one of several (plan/agreement.h): takes the gradients of workers as they
// come, lets them make updates and gives weights back. What it runs for each are lists of its program
// (exchange/served.h); the order in which it does is that of arrivals, or that of a run before
// (arrival_order.h). A worker needs nothing of this: it runs its lists in every step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/plan/agreement.h"
#include "trireme/train/arrival_order.h"
#include "trireme/train/trainer.h"

namespace trireme {

class ServerSteps {
 public:
  // `first` steps are done, of `steps`; all workers are about to compute the next one. `replay`: of the run
  // that is made again, from there on. All that is given outlives it.
  ServerSteps(const Servers& servers, Trainer& trainer, Communicator& communicator, int64_t first,
              int64_t steps, std::optional<std::map<int64_t, Arrivals>> replay = {});

  // Waits for gradients that are under way, as after an error: their memory is the trainer's.
  ~ServerSteps();
  ServerSteps(const ServerSteps&) = delete;
  ServerSteps& operator=(const ServerSteps&) = delete;

  // One step: the update of all workers' gradients of it; or, where each makes an update, as many as there
  // are workers. Means over these. Throws Error when all workers are lost, and when the order that is
  // replayed can not be.
  StepResult step(int64_t step, double rate);
  // Lets all workers go, each when it is heard of next. After the last step; once.
  enum class Why { kThrough, kStopped };
  void finish(Why why);

  bool is_asked_to_stop() const { return asked_; }        // by a worker
  const Arrivals& arrivals() const { return arrivals_; }  // of the last step
  // Of all steps since this was last asked, by step, counted from 1; of one of several servers.
  std::map<int64_t, Arrivals> take_arrivals() { return std::exchange(taken_arrivals_, {}); }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }  // who was lost, for people

 private:
  struct Worker {
    int number, rank;
    enum class State {
      kComputes,
      kWaits,  // for weights: its gradients have come
      kLetGo,  // it was told that the run is over
      kLost,
    } state = State::kComputes;
    int64_t clock = 0;                  // steps that it has sent gradients of
    int64_t version = 0;                // of the weights that it has: so many updates
    const std::byte* memory = nullptr;  // of the message that is awaited; null: none is
  };

  bool by_clocks() const { return servers_.updates == Servers::Updates::kClocks; }
  void finish_together();
  StepResult clock_step(int64_t step, double rate);
  StepResult arrival_step(int64_t step, double rate);
  Worker* next_arrival(int64_t step);
  Worker* replayed(int64_t step);
  Worker* first_of(const std::vector<Worker*>& workers);
  std::vector<Worker*> in_state(Worker::State state);
  bool has_all(int64_t step) const;
  bool has_more(int64_t step) const;
  void expect_somebody();
  StepResult apply(int slot, int64_t number, double rate);
  void expect_push(Worker& worker);
  enum class Over { kNo, kYes };
  void answer(Worker& worker, Over over);
  void answer_waiting();
  void say_over(float over);
  void read_news(const Worker& worker);
  void lose(Worker& worker, const std::string& why);
  void forget_gradients(const Worker& worker);
  void note_staleness(int64_t staleness);

  const Servers servers_;
  Trainer& trainer_;
  Communicator& communicator_;
  const int64_t steps_;
  const std::optional<std::map<int64_t, Arrivals>> replay_;
  std::vector<Worker> workers_;
  int64_t updates_ = 0;  // made so far
  int last_ = 0;         // whose turn it was
  float says_over_;      // what workers are told with their weights
  float over_;           // what they are told with their last ones
  bool asked_ = false;
  Arrivals arrivals_;
  std::map<int64_t, Arrivals> taken_arrivals_;
  std::vector<std::string> notes_;
  int64_t taken_ = 0, stalest_ = 0, stale_sum_ = 0;  // gradients of this step
};

}  // namespace trireme
