// See bad_steps.h. The record is one key of the object that checkpoints leave to training loops.
#include "trireme/run/bad_steps.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using BadStepsJson = nlohmann::json;

constexpr const char* kBadSteps = "bad_steps";

[[noreturn]] void refuse_record(std::string_view where, std::string_view key) {
  throw_error("{}: '{}' of '{}' is not what it can be; the file is damaged", where, key, kBadSteps);
}

BadStepsJson bad_steps_in(std::string_view extra, std::string_view where) {
  const BadStepsJson object = BadStepsJson::parse(extra, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw_error("{}: 'extra' is not an object", where);
  const BadStepsJson record = object.value(kBadSteps, BadStepsJson::object());
  if (!record.is_object()) throw_error("{}: '{}' is not an object", where, kBadSteps);
  return record;
}

int64_t whole_number(const BadStepsJson& record, const char* key, int64_t otherwise, std::string_view where) {
  const auto found = record.find(key);
  if (found == record.end()) return otherwise;
  if (!found->is_number_unsigned() || found->get<uint64_t>() > INT64_MAX) refuse_record(where, key);
  return found->get<int64_t>();
}

}  // namespace

BadSteps::BadSteps(const TrainOptions& train)
    : on_nan_(train.on_nan),
      on_spike_(train.on_spike),
      deviations_(train.spike_deviations),
      window_(static_cast<size_t>(train.spike_window)),
      most_rewinds_(train.max_rewinds),
      rewinds_(on_nan_ == "rewind" || on_spike_ == "rewind") {}

double BadSteps::loss_limit() const {
  if (on_spike_ == "none" || losses_.size() < window_) return Trainer::kNoLossLimit;
  double sum = 0, squares = 0;
  for (const double loss : losses_) sum += loss;
  const double count = static_cast<double>(losses_.size()), mean = sum / count;
  for (const double loss : losses_) squares += (loss - mean) * (loss - mean);
  // The device compares floats.
  return static_cast<float>(std::min(mean + deviations_ * std::sqrt(squares / count), Trainer::kNoLossLimit));
}

void BadSteps::add(const StepResult& done) {
  if (on_spike_ == "none" || done.skipped) return;
  losses_.push_back(done.loss);
  while (losses_.size() > window_) losses_.pop_front();
}

bool BadSteps::rewinds_after(BadNumbers::Kind kind) const {
  return (kind == BadNumbers::Kind::kSpike ? on_spike_ : on_nan_) == "rewind";
}

void BadSteps::saves(int64_t step) {
  point_before_ = point_;
  point_ = step;
  rewinds_here_ = 0;
}

void BadSteps::not_saved(int64_t step) {
  if (point_ == step) point_ = point_before_;
}

void BadSteps::rewound(std::string_view extra, std::string_view where) {
  ++rewinds_here_;
  ++rewinds_so_far_;
  restore_losses(extra, where);
}

std::string BadSteps::added_to(std::string_view extra) const {
  BadStepsJson record = BadStepsJson::object();
  if (!losses_.empty()) record["losses"] = losses_;
  if (skipped_in_a_row > 0) record["skipped_in_a_row"] = skipped_in_a_row;
  if (rewinds_) {
    record["rewind_to"] = point_;
    record["rewinds_here"] = rewinds_here_;
    record["rewinds"] = rewinds_so_far_;
  }
  BadStepsJson object = BadStepsJson::parse(extra);
  if (!record.empty()) object[kBadSteps] = std::move(record);
  return object.dump();
}

void BadSteps::restore(std::string_view extra, int64_t step, std::string_view where) {
  restore_losses(extra, where);
  const BadStepsJson record = bad_steps_in(extra, where);
  // A checkpoint of a run that did not rewind is one to rewind to.
  point_ = point_before_ = whole_number(record, "rewind_to", step, where);
  if (point_ > step) refuse_record(where, "rewind_to");
  rewinds_here_ = whole_number(record, "rewinds_here", 0, where);
  rewinds_so_far_ = whole_number(record, "rewinds", 0, where);
}

void BadSteps::restore_losses(std::string_view extra, std::string_view where) {
  const BadStepsJson record = bad_steps_in(extra, where);
  skipped_in_a_row = whole_number(record, "skipped_in_a_row", 0, where);
  losses_.clear();
  const auto losses = record.find("losses");
  if (on_spike_ == "none" || losses == record.end()) return;
  if (!losses->is_array()) refuse_record(where, "losses");
  for (const BadStepsJson& loss : *losses) {
    if (!loss.is_number() || !std::isfinite(loss.get<double>())) refuse_record(where, "losses");
    losses_.push_back(loss.get<double>());
  }
  while (losses_.size() > window_) losses_.pop_front();
}

}  // namespace trireme
