// Samples of a language model: windows of `seq` tokens and, as targets, the tokens that follow each.
#pragma once

#include "trireme/data/data_set.h"
#include "trireme/data/token_array.h"

namespace trireme {

enum class WindowStart {
  per_epoch,  // windows start at multiples of seq plus an offset in [0, seq) drawn per epoch (training)
  fixed       // windows start at multiples of seq; the last is padded, so that each target counts once
              // (evaluation)
};

class TokenWindows final : public DataSet {
 public:
  // Throws Error when there are too few tokens: seq + 1 for training, 2 for evaluation. write() throws one at
  // a token outside [0, vocab). `text_ends` is where each of several texts ends, ascending, in tokens.
  TokenWindows(TokenArray tokens, int64_t vocab, int64_t seq, WindowStart start, uint64_t seed,
               std::vector<int64_t> text_ends = {});

  int64_t size() const override { return size_; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override;
  void write_padding(int64_t row, Batch& batch) const override;
  // The text that the middle of the window is in, wherever it starts in an epoch.
  int64_t group(int64_t index) const override;

  const TokenArray& tokens() const { return tokens_; }
  int64_t offset(int64_t epoch) const;  // of the windows of an epoch

 private:
  TokenArray tokens_;
  int64_t vocab_;
  int64_t seq_;
  WindowStart start_;
  uint64_t seed_;
  int64_t size_;
  std::vector<int64_t> text_ends_;
  std::vector<SampleTensor> tensors_;
};

}  // namespace trireme
