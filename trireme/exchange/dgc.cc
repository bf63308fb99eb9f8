// Deep gradient compression: momentum is part of what is accumulated on a rank, and of what was sent both the
// accumulated gradient and its velocity start anew. In a warm-up more is sent: a quarter of all elements,
// then a quarter of that, and so on. Which are the largest may be guessed from some of them.
#include <cmath>

#include "trireme/exchange/methods.h"
#include "trireme/exchange/sparse.h"

namespace trireme {
namespace {

constexpr double kWarmUpFactor = 0.25;

// Up to which step so much of all elements is sent, in the warm-up.
struct WarmUpStage {
  int64_t until;
  double ratio;
};
std::vector<WarmUpStage> warm_up_stages(const ExchangeSettings& settings) {
  std::vector<double> ratios;
  for (double ratio = kWarmUpFactor; ratio > settings.real("ratio"); ratio *= kWarmUpFactor)
    ratios.push_back(ratio);
  std::vector<WarmUpStage> stages;
  const int64_t steps = settings.whole("warmup"), count = std::ssize(ratios);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t until = steps * (i + 1) / count;
    if (until > (stages.empty() ? 0 : stages.back().until)) stages.push_back({until, ratios[i]});
  }
  return stages;
}

// Of the steps up to `until`; 0: for good.
double ratio_until(const ExchangeSettings& settings, int64_t until) {
  for (const WarmUpStage& stage : warm_up_stages(settings)) {
    if (until != 0 && until <= stage.until) return stage.ratio;
  }
  return settings.real("ratio");
}

std::vector<int64_t> early(const ExchangeSettings& settings) {
  std::vector<int64_t> ends;
  for (const WarmUpStage& stage : warm_up_stages(settings)) ends.push_back(stage.until);
  return ends;
}

NextMove dgc_begin(Addend& x) {
  Builder& b = x.b;
  const double momentum = x.settings.real("momentum"), clip = x.settings.real("clip");
  const ValueId velocity = x.keep("velocity", x.shape()), waiting = x.keep_rest_in("waiting");
  // Of the mean, and clipped by what the rank's own gradients may be together.
  const ValueId scale = b.op("gradient_scale", {x.common.local_squares, x.common.count, x.common.loss_scale},
                             {{"max_norm", clip / std::sqrt(static_cast<double>(x.common.ranks))}});
  ValueId faster, sum;
  if (x.settings.whole("nesterov") != 0) {
    faster = b.op("affine", {b.op("add_scaled", {velocity, x.gradient(), scale})}, {{"scale", momentum}});
    sum = b.op("add_scaled", {b.op("add", {waiting, faster}), x.gradient(), scale});
  } else {
    faster = b.op("add_scaled", {b.op("affine", {velocity}, {{"scale", momentum}}), x.gradient(), scale});
    sum = b.op("add", {waiting, faster});
  }
  const int64_t k = kept_elements(x.shape(), ratio_until(x.settings, x.common.until));
  const std::vector<ValueId> kept =
      b.node("top_k", {x.flat(sum)}, {{"k", k}, {"sampled", x.settings.real("sampled")}});
  x.becomes(waiting, kept[2]);
  const bool masks = x.settings.whole("masking") != 0;
  x.becomes(velocity, masks ? b.op("clear_at", {x.flat(faster), kept[1]}) : faster);
  return send_sparse(x, kept, [&x, &b](ValueId mean) {
    return NextMove::done(x.in_shape(b.op("mul", {mean, x.common.unit})));
  });
}

}  // namespace

ExchangeMethod dgc_method() {
  return {.name = "dgc",
          .begin = dgc_begin,
          .bytes = top_k_method().bytes,
          .direction = ExchangeMethod::Direction::kOwnMomentum,
          .early = early};
}

}  // namespace trireme
