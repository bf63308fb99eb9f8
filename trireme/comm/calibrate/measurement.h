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
  std::vector<size_t> native;
  std::vector<Collective> native_collectives;
  int rounds;           // of messages in one operation
  int passes;           // of all, of whose figures the medians count,
  double most_seconds;  // unless so much has passed
  Stopwatch::Effort effort;
};

class Measurement {
 public:
  Measurement(Context& context, const CalibrationOptions& options);
  // All of these are collective. Rank 0's figures count: see share.h.
  std::vector<LinkModel> run();  // passes, for combine_links()
  void warm_up();
  LinkModel pass();  // everything once

 private:
  // Of the pairs: messages one after another and in a row; messages that nobody has to wait for; vectors.
  LinkCurves link(std::span<const RankPair> pairs);
  void add_exchanges(LinkCurves& link, std::span<const RankPair> pairs);
  void add_vectors(LinkCurves& link, std::span<const RankPair> pairs);
  double exchange_seconds(const Steps& steps, double share, size_t bytes);
  double vector_seconds(const Steps& steps, double share, size_t bytes, double message_seconds);
  // Adding what was taken before.
  void add_reduce(LinkModel& model);
  void add_reduce_vectors(LinkModel& model);
  void find_switches(LinkModel& model) const;
  Curve native_curve(Collective collective);
  double seconds_since(Clock::time_point begin);  // as rank 0 sees it
  // Without what starting and ending the operation takes.
  double steps_seconds(const Steps& steps, size_t vector_bytes, size_t segment_bytes);

  Context& context_;
  MeasuredSizes sizes_;
  MemoryKind memory_;
  int cores_;
  Places places_;
  std::vector<RankPair> inside_, same_core_, across_;
  std::vector<int> members_;
  Engine engine_;
  Stopwatch watch_;
  std::unique_ptr<Memory> buffer_;
  uint32_t programs_ = 0;  // so far
  double operation_seconds_ = 0;
};

}  // namespace trireme::comm
