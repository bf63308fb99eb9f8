// Token windows; see token_windows.h. With moving windows one window fewer is used than would fit, which
// leaves at least `seq` places for the offset whatever the number of tokens is.
#include "trireme/data/token_windows.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr size_t kIds = 0, kTargets = 1;  // in the order of tensors()

int64_t window_count(int64_t tokens, int64_t seq, WindowStart start) {
  if (start == WindowStart::fixed) return (tokens - 1 + seq - 1) / seq;
  return std::max<int64_t>(1, (tokens - seq) / seq);
}

}  // namespace

TokenWindows::TokenWindows(TokenArray tokens, int64_t vocab, int64_t seq, WindowStart start, uint64_t seed,
                           std::vector<int64_t> text_ends)
    : tokens_(std::move(tokens)),
      vocab_(vocab),
      seq_(seq),
      start_(start),
      seed_(seed),
      text_ends_(std::move(text_ends)) {
  if (seq < 1) throw_error("model.seq is {}, at least 1 was expected", seq);
  const int64_t least = start == WindowStart::fixed ? 2 : seq + 1;
  if (tokens_.size() < least) {
    throw_error("{} tokens found, at least {} expected for windows of {}; give more text or lower model.seq",
                tokens_.size(), least, seq);
  }
  size_ = window_count(tokens_.size(), seq, start);
  tensors_ = {{"ids", DType::i32, Shape{seq}}, {"targets", DType::i32, Shape{seq}}};
}

int64_t TokenWindows::group(int64_t index) const {
  if (text_ends_.empty()) return -1;
  return std::ranges::upper_bound(text_ends_, index * seq_ + seq_ / 2) - text_ends_.begin();
}

int64_t TokenWindows::offset(int64_t epoch) const {
  if (start_ == WindowStart::fixed) return 0;
  const int64_t places = std::min(seq_, tokens_.size() - size_ * seq_);
  return static_cast<int64_t>(
      uniform_integer(epoch_key(seed_, "data.offset", epoch), 0, static_cast<uint64_t>(places)));
}

void TokenWindows::write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const {
  const std::span<int32_t> ids = batch.tensors[kIds].second.row<int32_t>(row);
  const std::span<int32_t> targets = batch.tensors[kTargets].second.row<int32_t>(row);
  const int64_t first = offset(epoch) + index * seq_;
  const size_t count = static_cast<size_t>(std::min(seq_, tokens_.size() - 1 - first));
  tokens_.copy(first, vocab_, ids.first(count), targets.first(count));
  std::fill(ids.begin() + static_cast<int64_t>(count), ids.end(), 0);
  std::fill(targets.begin() + static_cast<int64_t>(count), targets.end(), kIgnoreTarget);
}

void TokenWindows::write_padding(int64_t row, Batch& batch) const {
  std::ranges::fill(batch.tensors[kIds].second.row<int32_t>(row), 0);
  std::ranges::fill(batch.tensors[kTargets].second.row<int32_t>(row), kIgnoreTarget);
}

}  // namespace trireme
