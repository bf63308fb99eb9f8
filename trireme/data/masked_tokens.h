// Samples of a masked language model (Devlin et al.): windows of tokens of which some are hidden, and as
// targets the hidden ones alone. Of the tokens that are chosen, 80 per cent become the mask, 10 per cent a
// token drawn at random, and 10 per cent stay.
#pragma once

#include <memory>

#include "trireme/data/token_windows.h"

namespace trireme {

class MaskedTokens final : public DataSet {
 public:
  // Ids of the windows are below `mask`, the id that hides one. A share of `fraction` of them is chosen, and
  // at least one in each window.
  MaskedTokens(TokenWindows windows, int32_t mask, double fraction, uint64_t seed);

  int64_t size() const override { return windows_.size(); }
  std::span<const SampleTensor> tensors() const override { return windows_.tensors(); }
  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override;
  void write_padding(int64_t row, Batch& batch) const override { windows_.write_padding(row, batch); }
  int64_t group(int64_t index) const override { return windows_.group(index); }

 private:
  TokenWindows windows_;
  int32_t mask_;
  float fraction_;
  uint64_t seed_;
};

}  // namespace trireme
