// Pieces of token storage; see token_array.h.
#include "trireme/train/data/token_array.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

template <typename T>
TokenArray own(std::vector<T> ids, std::string source) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(ids));
  return TokenArray::of(std::span<const T>(*owner), owner, std::move(source));
}

}  // namespace

TokenArray TokenArray::of(std::span<const uint16_t> ids, std::shared_ptr<const void> owner,
                          std::string source) {
  TokenArray array;
  if (!ids.empty())
    array.pieces_.push_back(
        {0, static_cast<int64_t>(ids.size()), 0, ids.data(), nullptr, std::move(owner), std::move(source)});
  return array;
}

TokenArray TokenArray::of(std::span<const uint32_t> ids, std::shared_ptr<const void> owner,
                          std::string source) {
  TokenArray array;
  if (!ids.empty())
    array.pieces_.push_back(
        {0, static_cast<int64_t>(ids.size()), 0, nullptr, ids.data(), std::move(owner), std::move(source)});
  return array;
}

TokenArray TokenArray::of(std::vector<uint16_t> ids, std::string source) {
  return own(std::move(ids), std::move(source));
}
TokenArray TokenArray::of(std::vector<uint32_t> ids, std::string source) {
  return own(std::move(ids), std::move(source));
}

void TokenArray::append(const TokenArray& other) {
  const int64_t offset = size();
  const size_t count = other.pieces_.size();  // taken first: an array may be appended to itself
  for (size_t i = 0; i < count; ++i) {
    Piece piece = other.pieces_[i];
    piece.begin += offset;
    pieces_.push_back(std::move(piece));
  }
}

TokenArray TokenArray::slice(int64_t first, int64_t last) const {
  TRIREME_CHECK(first >= 0);
  TRIREME_CHECK(first <= last);
  TRIREME_CHECK(last <= size());
  TokenArray part;
  for (const Piece& piece : pieces_) {
    const int64_t begin = std::max(first, piece.begin), end = std::min(last, piece.begin + piece.size);
    if (begin >= end) continue;
    const int64_t skip = begin - piece.begin;
    part.pieces_.push_back({begin - first, end - begin, piece.source_begin + skip,
                            piece.narrow ? piece.narrow + skip : nullptr,
                            piece.wide ? piece.wide + skip : nullptr, piece.owner, piece.source});
  }
  return part;
}

void TokenArray::copy(int64_t first, std::span<int32_t> out) const {
  const int64_t last = first + static_cast<int64_t>(out.size());
  TRIREME_CHECK(first >= 0);
  TRIREME_CHECK(last <= size());
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](int64_t at, const Piece& p) { return at < p.begin; });
  if (piece != pieces_.begin()) --piece;
  int32_t* target = out.data();
  for (; first < last; ++piece) {
    const int64_t from = first - piece->begin, count = std::min(last - first, piece->size - from);
    if (piece->narrow != nullptr) {
      target = std::copy_n(piece->narrow + from, count, target);
    } else {
      target = std::transform(piece->wide + from, piece->wide + from + count, target,
                              [](uint32_t id) { return static_cast<int32_t>(id); });
    }
    first += count;
  }
}

int64_t TokenArray::largest() const {
  int64_t largest = -1;
  for (const Piece& piece : pieces_) {
    // A plain reduction: the compiler vectorises it, so that this runs at the speed of memory.
    uint32_t top = 0;
    for (int64_t i = 0; i < piece.size; ++i)
      top = std::max<uint32_t>(top, piece.narrow ? piece.narrow[i] : piece.wide[i]);
    largest = std::max<int64_t>(largest, top);
  }
  return largest;
}

void TokenArray::check(int64_t vocab) const {
  if (largest() < vocab) return;
  for (const Piece& piece : pieces_) {
    for (int64_t i = 0; i < piece.size; ++i) {
      const int64_t id = piece.narrow ? piece.narrow[i] : piece.wide[i];
      if (id < vocab) continue;
      throw_error(
          "{}: token {} at position {} is outside the vocabulary of {}; raise model.vocab to at least {}, or "
          "tokenize the data with the model's tokenizer",
          piece.source, id, piece.source_begin + i, vocab, largest() + 1);
    }
  }
}

}  // namespace trireme
