// What is placed: a workflow of models that answer requests together, the variants that each of its ops may
// run as, the workers that can be rented, and what is asked of the whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/collective/emulated_link.h"

namespace trireme::place {

inline constexpr double kBytesPerKilobyte = 1024;

// Messages from tier `from` to tier `to`. Inside a tier they are free; between tiers without a link there are
// none.
struct TierLink {
  int from = 0, to = 0;
  double price_per_gigabyte = 0;
  comm::EmulatedLink speed = {};  // of one worker's messages; without jitter
};

// `count` equal workers that can be rented each for itself.
struct WorkerClass {
  std::string name;
  int tier = 0;
  double price_per_hour = 0;
  int count = 1;
};

// Where requests come from.
struct Source {
  std::string name;
  int tier = 0;
  double rate = 0;       // messages per second
  double kilobytes = 0;  // of a message
  std::string held_out;  // the run whose held-out images are the messages; "": they can not be sent
};

// The accuracy of an op's output where those of its input ops are at least `inputs`, in their order.
struct AccuracyPoint {
  std::vector<double> inputs;
  double output = 0;
};

struct Variant {
  std::string name;
  double kilobytes = 0;                        // of an output
  std::vector<std::optional<double>> seconds;  // for one input, by worker class; none: cannot run there
  std::vector<AccuracyPoint> points;
  // What makes the outputs when the workflow runs: the folder of a run, beside the workflow's file; "": it
  // can not run.
  std::string run;
  std::string weights;  // of the run, that the figures were measured with; "": not said
  int tokens = 0;       // of an output, if it is a text
};

// An op waits for one message of each input and makes one output.
struct Op {
  struct Input {
    bool is_source = false;
    int index = 0;     // of a source, or of an op before this one
    double ratio = 1;  // inputs of this op per message: below 1 where only some messages come this way
  };
  std::string name;
  std::vector<Input> inputs;
  std::vector<Variant> variants;
};

struct Workflow {
  std::vector<std::string> tiers;
  std::vector<TierLink> links;
  std::vector<WorkerClass> workers;
  std::vector<Source> sources;
  std::vector<Op> ops;  // inputs first; the last one makes the answers
  double accuracy = 0;  // of the answers, at least
  double load = 1;      // of a worker, at most: the share of its time in which it computes
  bool shared = false;  // a worker may run several ops

  // Dollars per hour of one message a second; none where no link leads there.
  std::optional<double> price_of_messages(int from, int to, double kilobytes) const;
};

// Throws Error with `origin` for what cannot be placed, whatever the goals: a name twice, an op that nobody
// hears, a variant without workers, points of the wrong size.
void check(const Workflow& workflow, const std::string& origin);

// Inputs per second that each op must take.
std::vector<double> required_rates(const Workflow& workflow);

// By op, the index of its variant; kAnyVariant for one that is left open.
using Variants = std::vector<int>;
inline constexpr int kAnyVariant = -1;

// Accuracy of the answers; with open ops the best that any of their variants give. What is measured at some
// accuracies of inputs is taken to hold where inputs are more accurate, and 0 where no point was measured.
double accuracy_of(const Workflow& workflow, const Variants& variants);

}  // namespace trireme::place
