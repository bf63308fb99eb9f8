// A pipeline's turns in an order in which all of them can be done, made once and timed often: with other
// durations the same turns wait for the same turns. A planner times thousands of steps with it.
#pragma once

#include <span>
#include <vector>

#include "trireme/schedule/pipeline.h"

namespace trireme {

// By chunk, in seconds.
struct ChunkSeconds {
  double forward = 0;
  double backward = 0;  // with the gradients of weights, unless these have turns of their own
  double weight = 0;
  // Of the message to the next chunk, where that is on another stage, and of the one that it sends back: how
  // long it is on the wire, and how much later it is there.
  double ahead = 0, back = 0, latency = 0;
};

// Whether messages of one stage to another leave one after another, or do not wait for each other: a bound.
enum class Wires { kInTurn, kFree };

class TurnOrder {
 public:
  // Of a pipeline that verify() accepts, without updates between turns.
  explicit TurnOrder(const Pipeline& pipeline);

  struct Ends {
    std::vector<double> first;  // of each stage: when its first turn begins
    std::vector<double> last;   // of each stage: when its last turn ends
  };
  // Every turn begins as soon as its stage is free and what it needs has come.
  Ends timed(std::span<const ChunkSeconds> chunks, Wires wires) const;

 private:
  struct Turn {
    int stage = 0;
    Phase phase = Phase::kForward;
    int chunk = 0;
    int needs = -1;  // the turn that it waits for, among those before it
    int wire = -1;   // over which what it needs comes; −1: it is on the same stage
  };
  int stages_ = 0, wires_ = 0;
  std::vector<Turn> turns_;
};

}  // namespace trireme
