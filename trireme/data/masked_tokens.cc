// See masked_tokens.h. What is chosen, and what becomes of it, are two numbers drawn for each place of the
// epoch.
#include "trireme/data/masked_tokens.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr float kMasked = 0.8f, kMaskedOrRandom = 0.9f;

}  // namespace

MaskedTokens::MaskedTokens(TokenWindows windows, int32_t mask, double fraction, uint64_t seed)
    : windows_(std::move(windows)), mask_(mask), fraction_(static_cast<float>(fraction)), seed_(seed) {
  if (!(fraction > 0 && fraction < 1))
    throw_error("data.masked_fraction is {}, a share above 0 and below 1 was expected", fraction);
}

void MaskedTokens::write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const {
  windows_.write(epoch, index, row, batch);
  const std::span<int32_t> ids = batch.tensors[0].second.row<int32_t>(row);
  const std::span<int32_t> targets = batch.tensors[1].second.row<int32_t>(row);
  const RngKey chosen = epoch_key(seed_, "data.masked", epoch),
               becomes = epoch_key(seed_, "data.mask", epoch);
  const uint64_t first = static_cast<uint64_t>(index) * ids.size();
  const auto hide = [&](size_t i) {
    targets[i] = ids[i];
    const float what = uniform(becomes, 2 * (first + i));
    if (what < kMasked) {
      ids[i] = mask_;
    } else if (what < kMaskedOrRandom) {
      ids[i] =
          static_cast<int32_t>(uniform_integer(becomes, 2 * (first + i) + 1, static_cast<uint64_t>(mask_)));
    }
  };
  // The windows have targets where they have tokens.
  const auto padding = std::ranges::find(targets, kIgnoreTarget);
  const size_t count = static_cast<size_t>(padding - targets.begin());
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    targets[i] = kIgnoreTarget;
    if (uniform(chosen, first + i) >= fraction_) continue;
    hide(i);
    any = true;
  }
  if (!any && count > 0) hide(uniform_integer(chosen, first, count));
}

}  // namespace trireme
