// See held_out_record.h. The record is one key of the object that checkpoints leave to training loops.
#include "trireme/run/held_out_record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr const char* kKey = "held_out";

[[noreturn]] void refuse(std::string_view where, std::string_view key) {
  throw_error("{}: '{}' of '{}' is missing or not a number that it can be; the file is damaged", where, key,
              kKey);
}

int64_t count(const json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > INT64_MAX)
    refuse(where, key);
  return found->get<int64_t>();
}

double real(const json& object, const char* key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>()))
    refuse(where, key);
  return found->get<double>();
}

json record_in(std::string_view extra, std::string_view where) {
  const json object = json::parse(extra, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw_error("{}: 'extra' is not an object", where);
  const json record = object.value(kKey, json::object());
  if (!record.is_object()) throw_error("{}: '{}' is not an object", where, kKey);
  return record;
}

}  // namespace

HeldOutRecord::HeldOutRecord(const Config& config, HeldOut data)
    : keeps_best_(config.run.keep_best), patience_(config.train.patience) {
  if (data == HeldOut::kSome || (!keeps_best_ && patience_ == 0)) return;
  throw_error(
      "{} goes by the loss on held-out data, but the data has no held-out part; set "
      "data.validation_fraction above 0",
      keeps_best_ ? "run.keep_best" : fmt::format("train.patience = {}", patience_));
}

bool HeldOutRecord::add(int64_t step, double loss) {
  if (std::isfinite(loss) && (!lowest_ || loss < *lowest_)) {
    lowest_ = loss;
    since_lowest_ = 0;
  } else {
    ++since_lowest_;
  }
  if (!keeps_best_ || !std::isfinite(loss) || (best_ && loss >= best_->loss)) return false;
  best_before_ = std::exchange(best_, Best{step, loss});
  return true;
}

void HeldOutRecord::not_saved(int64_t step) {
  if (best_ && best_->step == step) best_ = std::exchange(best_before_, std::nullopt);
}

std::string HeldOutRecord::added_to(std::string_view extra) const {
  json object = json::parse(extra);
  if (!lowest_ && since_lowest_ == 0) return object.dump();  // nothing was evaluated
  json record = {{"evaluations_since_lowest", since_lowest_}};
  if (lowest_) record["lowest"] = *lowest_;
  if (best_) record["best"] = {{"step", best_->step}, {"loss", best_->loss}};
  object[kKey] = std::move(record);
  return object.dump();
}

void HeldOutRecord::restore(std::string_view extra, std::string_view where) {
  const json record = record_in(extra, where);
  if (record.empty()) return;
  since_lowest_ = count(record, "evaluations_since_lowest", where);
  lowest_ = record.contains("lowest") ? std::optional(real(record, "lowest", where)) : std::nullopt;
  best_ = keeps_best_ ? best_checkpoint(extra, where) : std::nullopt;
}

std::optional<HeldOutRecord::Best> best_checkpoint(std::string_view extra, std::string_view where) {
  const json record = record_in(extra, where);
  if (!record.contains("best")) return std::nullopt;
  const json& best = record["best"];
  if (!best.is_object()) refuse(where, "best");
  return HeldOutRecord::Best{count(best, "step", where), real(best, "loss", where)};
}

}  // namespace trireme
