// One measurement of the links of a job; see calibrate.h.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/calibrate/calibrate.h"
#include "trireme/comm/calibrate/programs.h"
#include "trireme/comm/calibrate/stopwatch.h"
#include "trireme/comm/engine.h"

namespace trireme::comm {

// What is measured, and for how long.
struct MeasuredSizes {
  std::vector<size_t> messages;
  std::vector<size_t> vectors;
  std::vector<size_t> operations;       // whole ones,
  std::vector<Collective> collectives;  // of these
  int rounds;                           // of messages in one operation
  int passes;                           // of all, of whose figures the medians count,
  double most_seconds;                  // unless so much has passed
  Stopwatch::Effort effort;
};

class Measurement {
 public:
  Measurement(Context& context, const CalibrationOptions& options);
  // All of these are collective. Rank 0's figures count: see share.h.
  std::vector<LinkModel> run();  // passes, for combine_links()
  void warm_up();
  LinkModel pass();  // everything once
  // Fills in what is preferred, which is the same on all ranks as the model is.
  void hold_contests(LinkModel& model);

 private:
  LinkCurves link(std::span<const RankPair> pairs);
  double message_seconds(std::span<const RankPair> pairs, size_t bytes);
  void add_exchanges(LinkModel& model);
  // Of a pass over a vector, of which one half goes each way `first`, the other half `then`.
  double vector_seconds(size_t bytes, size_t segment, Action first, Action then);
  void add_vectors(LinkModel& model);
  double beyond_prediction(const LinkModel& model, size_t bytes, size_t segment);  // of handing back
  Curve hand_on(const LinkModel& model);
  TimedOperations timed_operations(Collective collective);
  double seconds_since(Clock::time_point begin);  // as rank 0 sees it
  // Without what starting and ending the operation takes.
  double steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes);

  Context& context_;
  MeasuredSizes sizes_;
  MemoryKind memory_;
  std::vector<RankPair> inside_, across_;
  int cores_;
  bool crowded_;  // more ranks on a host than cores
  // Ranks that share cores while all pairs are at work do so in collectives too, where the cost model lets
  // them wait for one. So their own times are what they would be alone: this share of what was measured.
  double own_share_;
  std::vector<int> members_;
  Engine engine_;
  Algorithm barrier_;
  Stopwatch watch_;
  std::unique_ptr<Memory> buffer_;
  uint32_t programs_ = 0;  // so far
  double operation_seconds_ = 0;
};

}  // namespace trireme::comm
