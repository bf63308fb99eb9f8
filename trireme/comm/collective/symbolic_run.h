// One symbolic run of Steps, by the meaning in steps.h taken at its strictest:
//  - a send waits until its receive takes it (no transport buffers anything),
//  - a pair of ranks has one message beside its chunk at a time: the next is taken when that one is applied,
//  - all steps on a chunk, two sends too, go one after another.
//
// One run is enough. Which receive takes which send is fixed by the lists (the k-th of a pair), and an event
// waits for a fixed set of earlier events and for nothing else. So an event that can happen stays possible
// whatever happens first, every run that goes on as long as it can ends with the same events done, and one
// that ends with all done shows that all do. An engine that buffers more or orders less waits for fewer
// events, and so ends too. An engine that cuts messages in segments and holds few of them beside their place
// is another matter: it is the run of the Steps cut in pieces (see check.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/collective/expression.h"
#include "trireme/comm/collective/owed.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

class SymbolicRun {
 public:
  SymbolicRun(const Steps& steps, const Owed& owed);

  void run();  // throws Error when a rank reads what is not there, or waits for ever

  int held(int rank, int chunk) const { return ranks_[rank].chunks[chunk].holds; }
  const Expressions& expressions() const { return expressions_; }
  int rounds() const { return rounds_; }

 private:
  struct Chunk {
    int holds = Expressions::kUndefined;
    std::vector<int> steps;  // that touch it, in list order
    size_t next = 0;         // of `steps`: whose turn it is
    int written_round = 0;   // when what it holds was there
    int read_round = 0;      // when the last send of it was over
  };
  struct Place {  // a step
    int rank;
    int step;
  };
  struct Message {
    Place sender, receiver;
    int before = -1;  // the message before it of the same pair
    bool taken = false;
    bool applied = false;
    int round = 0;           // in which it arrives
    std::vector<int> holds;  // of each chunk it carries
  };
  struct Rank {
    std::vector<Chunk> chunks;
    std::vector<int> message;  // of each step; -1 for local ones
    std::vector<bool> done;    // each step
  };

  void match();
  bool has_turn(Place place) const;
  // A step that must be done before this one, of a run that is stuck.
  Place blocker(Place place) const;
  void try_step(Place place);
  void take(Message& message);
  void apply(Message& message);
  void combine_locally(Place place);
  int combined(Place place, int chunk, Action action, int from);
  void finish(Place place);
  [[noreturn]] void report_circle(Place stuck) const;

  template <typename Body>
  void each_chunk(Place place, const Body& body) const;
  const Step& step_at(Place place) const { return steps_.of(place.rank)[place.step]; }
  std::string text(Place place) const;

  const Steps& steps_;
  Expressions expressions_;
  std::vector<Rank> ranks_;
  std::vector<Message> messages_;
  std::vector<Place> ready_;  // steps that may have become possible
  int rounds_ = 0;
};

}  // namespace trireme::comm
