// See pair_samples.h.
#include "trireme/data/pair_samples.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme {
namespace {

// In the order of tensors().
constexpr size_t kSource = 0, kSourceLength = 1, kDecoded = 2, kExpected = 3;

std::span<int32_t> row_of(Batch& batch, size_t tensor, int64_t row) {
  return batch.tensors[tensor].second.row<int32_t>(row);
}

// The longest of all sources or targets must fit with its end.
void check_longest(const PairTokens& pairs, std::span<const int32_t> PairTokens::Pair::*which,
                   std::string_view what, std::string_view setting, int64_t seq) {
  int64_t longest = -1, line = 0;
  for (int64_t i = 0; i < pairs.size(); ++i) {
    const PairTokens::Pair pair = pairs[i];
    if (std::ssize(pair.*which) <= longest) continue;
    longest = std::ssize(pair.*which);
    line = pair.line;
  }
  if (longest + 1 <= seq) return;
  throw_error(
      "the {} of line {} has {} tokens with its end, but {} is {}; set it to {}, or leave long pairs out",
      what, line, longest + 1, setting, seq, longest + 1);
}

}  // namespace

std::vector<PairText> parse_pairs(std::string_view text, std::string_view name) {
  std::vector<PairText> pairs;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.empty()) continue;
    const auto tabs = std::ranges::count(one, '\t');
    if (tabs != 1)
      throw_error("{}: line {} has {} tabs, where one between a source and its target was expected", name,
                  line, tabs);
    const size_t tab = one.find('\t');
    pairs.push_back({one.substr(0, tab), one.substr(tab + 1), line});
  }
  return pairs;
}

void PairTokens::append(std::span<const int32_t> source, std::span<const int32_t> target, int64_t line) {
  for (const auto& ids : {source, target}) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ends_.push_back(std::ssize(ids_));
  }
  lines_.push_back(line);
}

PairTokens::Pair PairTokens::operator[](int64_t i) const {
  const auto at = static_cast<size_t>(2 * i);
  const int64_t begin = i == 0 ? 0 : ends_[at - 1];
  const auto part = [&](int64_t first, int64_t last) {
    return std::span(ids_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
  };
  return {part(begin, ends_[at]), part(ends_[at], ends_[at + 1]), lines_[static_cast<size_t>(i)]};
}

PairTokens PairTokens::slice(int64_t first, int64_t last) const {
  PairTokens part;
  for (int64_t i = first; i < last; ++i) {
    const Pair pair = (*this)[i];
    part.append(pair.source, pair.target, pair.line);
  }
  return part;
}

uint64_t PairTokens::hash() const {
  return hash_of(ends_.data(), ends_.size() * sizeof(int64_t),
                 hash_of(ids_.data(), ids_.size() * sizeof(int32_t)));
}

PairSamples::PairSamples(PairTokens pairs, int32_t end, int64_t source_seq, int64_t seq)
    : pairs_(std::move(pairs)),
      end_(end),
      tensors_{{"source", DType::i32, Shape{source_seq}},
               {"source_length", DType::i32, Shape{}},
               {"ids", DType::i32, Shape{seq}},
               {"targets", DType::i32, Shape{seq}}} {
  if (pairs_.size() == 0) throw_error("no pairs found; at least one was expected");
  check_longest(pairs_, &PairTokens::Pair::source, "source", "model.source_seq", source_seq);
  check_longest(pairs_, &PairTokens::Pair::target, "target", "model.seq", seq);
}

void write_source(std::span<const int32_t> source, int32_t end, int64_t row, Batch& batch) {
  const std::span<int32_t> to = row_of(batch, kSource, row);
  std::ranges::fill(to, 0);
  std::ranges::copy(source, to.begin());
  to[source.size()] = end;
  row_of(batch, kSourceLength, row)[0] = static_cast<int32_t>(source.size()) + 1;
  const std::span<int32_t> decoded = row_of(batch, kDecoded, row);
  std::ranges::fill(decoded, 0);
  decoded[0] = end;
  std::ranges::fill(row_of(batch, kExpected, row), kIgnoreTarget);
}

void PairSamples::write(int64_t, int64_t index, int64_t row, Batch& batch) const {
  const PairTokens::Pair pair = pairs_[index];
  write_source(pair.source, end_, row, batch);
  const std::span<int32_t> decoded = row_of(batch, kDecoded, row), expected = row_of(batch, kExpected, row);
  for (size_t t = 0; t < pair.target.size(); ++t) {
    decoded[t + 1] = pair.target[t];
    expected[t] = pair.target[t];
  }
  expected[pair.target.size()] = end_;
}

void PairSamples::write_padding(int64_t row, Batch& batch) const {
  write_source({}, end_, row, batch);
}

}  // namespace trireme
