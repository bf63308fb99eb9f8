// See step_meter.h.
#include "trireme/run/step_meter.h"

#include "trireme/run/run_record.h"

namespace trireme {

StepMeter::StepMeter(const Run& run, Trainer& trainer) : run_(run), trainer_(trainer) {}

void StepMeter::begin() {
  begin_ = Clock::now();
  if (Communicator* const communicator = trainer_.executor().communicator()) {
    communicator->take_bytes();
    communicator->take_seconds();
  }
}

StepMetrics StepMeter::end(int64_t step, const StepResult& done, double rate, int64_t samples,
                           ArrivalDriver* arrivals, double peak_flops) {
  Communicator* const communicator = trainer_.executor().communicator();
  StepMetrics line;
  line.step = step;
  line.loss = done.loss;
  line.lr = rate;
  line.grad_norm = done.norm;
  line.step_seconds = seconds_since(begin_);
  line.samples_per_second = run_.units / line.step_seconds;
  if (communicator) {
    line.comm_seconds = communicator->take_seconds();
    line.bytes_sent = communicator->take_bytes();
  }
  line.peak_bytes = trainer_.program().peak_bytes();
  line.samples = samples;
  line.seconds = run_.seconds_before + seconds_since(start_);
  line.time = wall_seconds();
  line.expected = run_.expected;
  line.experts = done.experts;
  if (peak_flops > 0) line.mfu = run_.flops / line.step_seconds / peak_flops;
  critical_batch_.add(done.squares);
  if (const auto targets = critical_batch_.targets(); targets && run_.noise_scale && done.squares.count > 0)
    line.critical_batch = *targets * static_cast<double>(run_.batch) / done.squares.count;
  add_exchange(done, arrivals, line);
  return line;
}

void StepMeter::add_exchange(const StepResult& done, ArrivalDriver* arrivals, StepMetrics& line) {
  if (arrivals || run_.dense_bytes > 0) line.waiting_share = line.comm_seconds / line.step_seconds;
  if (arrivals) {
    line.staleness_mean = done.staleness_mean;
    line.staleness_max = done.staleness_max;
    line.arrivals = arrivals->arrivals(line.step);
  }
  if (run_.dense_bytes == 0) return;
  would_have_sent_ += run_.dense_bytes;
  sent_ += static_cast<double>(line.bytes_sent);
  if (sent_ > 0) line.compression_ratio = would_have_sent_ / sent_;
  line.residual_norm = done.residual_norm;
}

}  // namespace trireme
