// Samples of a model that turns one sequence into another: pairs of a source and a target, each of any length
// up to the model's. The vocabulary's last id is `end`, one more than the tokenizer's. It ends each sequence,
// and begins what the decoder reads: from the source `two<end>` and `<end>2` before it, it learns `2<end>`.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/data/data_set.h"

namespace trireme {

// The fields of a line `source<TAB>target`; `line` counts from 1.
struct PairText {
  std::string_view source, target;
  int64_t line = 0;
};

// All lines that are not empty; a carriage return before the line's end is not part of it. Throws an Error
// with `name` and the line where a line has not exactly one tab.
std::vector<PairText> parse_pairs(std::string_view text, std::string_view name);

// Pairs as ids, one after the other.
class PairTokens {
 public:
  struct Pair {
    std::span<const int32_t> source, target;
    int64_t line;
  };
  void append(std::span<const int32_t> source, std::span<const int32_t> target, int64_t line);
  int64_t size() const { return std::ssize(lines_); }
  Pair operator[](int64_t i) const;
  PairTokens slice(int64_t first, int64_t last) const;
  uint64_t hash() const;  // XXH64 of ids and lengths

 private:
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_;  // of each source and each target in turn
  std::vector<int64_t> lines_;
};

// Tensors: `source`, i32 [source_seq], with `source_length` tokens, `end` among them; `ids` and `targets`,
// i32 [seq]. What is behind a sequence's end counts for nothing.
class PairSamples final : public DataSet {
 public:
  // Throws an Error that names the line of the longest sequence where one does not fit with its end.
  PairSamples(PairTokens pairs, int32_t end, int64_t source_seq, int64_t seq);

  int64_t size() const override { return pairs_.size(); }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t epoch, int64_t index, int64_t row, Batch& batch) const override;
  void write_padding(int64_t row, Batch& batch) const override;
  Origin origin(int64_t index) const override { return {pairs_[index].line, ""}; }  // its line in the file

  const PairTokens& pairs() const { return pairs_; }

 private:
  PairTokens pairs_;
  int32_t end_;
  std::vector<SampleTensor> tensors_;
};

// The same for one source that has no target yet: what the decoder begins with.
void write_source(std::span<const int32_t> source, int32_t end, int64_t row, Batch& batch);

}  // namespace trireme
