// What methods have in common; see method.h.
#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/exchange/method.h"

namespace trireme {

Addend::Addend(Builder& builder, const Common& of_all, const ExchangeSettings& of_method,
               std::string_view parameter, ValueId gradient)
    : b(builder), common(of_all), settings(of_method), parameter_(parameter), gradient_(gradient) {}

ValueId Addend::reshaped(ValueId value, Shape shape) {
  if (b.shape(value) == shape) return value;
  return b.op("reshape", {value}, {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}});
}

ValueId Addend::keep(std::string_view name, Shape shape, Kept::Of of, Start start, Kept::What what) {
  Shape one{1};
  for (const int64_t extent : shape) one.push_back(extent);
  Attrs attrs{{"of", parameter_}, {"init", start == Start::kZeros ? "zeros" : "normal"}};
  if (start == Start::kNormal) attrs.set("scale", 1.0);
  const std::string full = fmt::format("{}{}.{}", kKeptPrefix, name, parameter_);
  const ValueId state = b.state(full, {DType::f32, one}, Role::kResidual, attrs);
  const ValueId value = reshaped(state, shape);
  kept_.push_back({state, value, kNoValue, of, what, full});
  return value;
}

void Addend::becomes(ValueId kept, ValueId value) {
  for (Kept& one : kept_) {
    if (one.seen == kept) one.next = reshaped(value, b.shape(one.state));
  }
}

ValueId Addend::with_residual(ValueId value) {
  residual_ = keep_rest_in("residual");
  return b.op("add_scaled", {value, residual_, common.unit});
}

void Addend::keep_rest(ValueId accumulated, ValueId sent) {
  becomes(residual_, b.op("residual", {accumulated, sent, common.unit}));
}

void Addend::keep_rest(ValueId rest) {
  becomes(residual_, b.op("div", {rest, common.unit}));
}

int64_t Addend::stream() const {
  const uint64_t mixed =
      stream_id(parameter_) ^ (static_cast<uint64_t>(common.rank) + 1) * 0x9E3779B97F4A7C15u;
  return static_cast<int64_t>(mixed >> 2);  // in a text it is a number that is not negative
}

double bytes_of_sum(int64_t ranks, double bytes) {
  return 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks) * bytes;
}
double bytes_of_gather(int64_t ranks, double bytes) {
  return static_cast<double>(ranks - 1) * bytes;
}
double bytes_of_deal(int64_t ranks, double bytes) {
  return static_cast<double>(ranks - 1) / static_cast<double>(ranks) * bytes;
}

}  // namespace trireme
