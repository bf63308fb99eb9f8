// Pieces of token storage; see token_array.h.
#include "trireme/data/token_array.h"

#include <algorithm>
#include <array>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme {
namespace {

// Ids that are read from a file at a time: on the stack for callers that want few, and on the heap when all
// are read.
constexpr size_t kFew = 4096, kMany = size_t{1} << 15;

}  // namespace

template <typename Id>
TokenArray TokenArray::own(std::vector<Id> ids, std::string source) {
  TokenArray array;
  if (ids.empty()) return array;
  const auto owner = std::make_shared<const std::vector<Id>>(std::move(ids));
  array.pieces_.push_back({.begin = 0,
                           .size = static_cast<int64_t>(owner->size()),
                           .source_begin = 0,
                           .id_bytes = sizeof(Id),
                           .memory = {owner, owner->data()},
                           .file = nullptr,
                           .file_offset = 0,
                           .source = std::move(source)});
  return array;
}

TokenArray TokenArray::of(std::vector<uint16_t> ids, std::string source) {
  return own(std::move(ids), std::move(source));
}
TokenArray TokenArray::of(std::vector<uint32_t> ids, std::string source) {
  return own(std::move(ids), std::move(source));
}

TokenArray TokenArray::of(std::shared_ptr<const DataFile> file, int64_t offset_bytes, int64_t id_bytes,
                          int64_t count) {
  TRIREME_CHECK((id_bytes == 2 || id_bytes == 4));
  TokenArray array;
  std::string source = file->path();
  if (count > 0)
    array.pieces_.push_back(
        {0, count, 0, id_bytes, nullptr, std::move(file), offset_bytes, std::move(source)});
  return array;
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
  TRIREME_CHECK(0 <= first);
  TRIREME_CHECK(first <= last);
  TRIREME_CHECK(last <= size());
  TokenArray part;
  for (const Piece& piece : pieces_) {
    const int64_t begin = std::max(first, piece.begin), end = std::min(last, piece.begin + piece.size);
    if (begin >= end) continue;
    Piece& cut = part.pieces_.emplace_back(piece);
    cut.begin = begin - first;
    cut.size = end - begin;
    cut.source_begin += begin - piece.begin;
  }
  return part;
}

template <typename Body>
void TokenArray::each_run(const Piece& piece, int64_t from, int64_t count, std::span<uint32_t> scratch,
                          const Body& body) {
  const auto typed = [&](auto type) {
    using Id = decltype(type);
    const int64_t first = piece.source_begin + from;
    if (piece.memory) {
      const Id* ids = static_cast<const Id*>(piece.memory.get()) + first;
      body(std::span<const Id>(ids, static_cast<size_t>(count)), from);
      return;
    }
    Id* const ids = reinterpret_cast<Id*>(scratch.data());
    const auto fits = static_cast<int64_t>(scratch.size_bytes() / sizeof(Id));
    for (int64_t done = 0; done < count; done += fits) {
      const auto now = static_cast<size_t>(std::min(fits, count - done));
      piece.file->read(static_cast<size_t>(piece.file_offset + (first + done) * piece.id_bytes),
                       {reinterpret_cast<uint8_t*>(ids), now * sizeof(Id)});
      body(std::span<const Id>(ids, now), from + done);
    }
  };
  if (piece.id_bytes == 2) {
    typed(uint16_t{});
  } else {
    typed(uint32_t{});
  }
}

template <typename Body>
void TokenArray::each_token(int64_t first, int64_t count, int64_t vocab, const Body& body) const {
  TRIREME_CHECK(first >= 0);
  TRIREME_CHECK(first + count <= size());
  std::array<uint32_t, kFew> scratch;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](int64_t at, const Piece& p) { return at < p.begin; });
  if (piece != pieces_.begin()) --piece;
  for (int64_t done = 0; done < count; ++piece) {
    const int64_t from = first + done - piece->begin, now = std::min(count - done, piece->size - from);
    each_run(*piece, from, now, scratch, [&](auto ids, int64_t begin) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= vocab) {
          throw_error(
              "{}: token {} at position {} is outside the vocabulary of {}, which all were in when it was "
              "opened; the file was written to since: put it back and start again",
              piece->source, ids[i], piece->source_begin + begin + static_cast<int64_t>(i), vocab);
        }
        body(done + begin - from + static_cast<int64_t>(i), static_cast<int32_t>(ids[i]));
      }
    });
    done += now;
  }
}

void TokenArray::copy(int64_t first, int64_t vocab, std::span<int32_t> out) const {
  each_token(first, std::ssize(out), vocab,
             [&](int64_t i, int32_t token) { out[static_cast<size_t>(i)] = token; });
}

void TokenArray::copy(int64_t first, int64_t vocab, std::span<int32_t> ids,
                      std::span<int32_t> targets) const {
  TRIREME_CHECK(ids.size() == targets.size());
  each_token(first, std::ssize(ids) + 1, vocab, [&](int64_t i, int32_t token) {
    if (i < std::ssize(ids)) ids[static_cast<size_t>(i)] = token;
    if (i > 0) targets[static_cast<size_t>(i - 1)] = token;
  });
}

TokenArray::Scan TokenArray::scan() const {
  Scan scan;
  RunningHash hash;
  std::vector<uint32_t> scratch(kMany);
  for (const Piece& piece : pieces_) {
    each_run(piece, 0, piece.size, scratch, [&](auto ids, int64_t) {
      std::array<uint32_t, kFew> wide;
      for (size_t done = 0; done < ids.size(); done += wide.size()) {
        const auto now = ids.subspan(done, std::min(wide.size(), ids.size() - done));
        // A plain reduction: the compiler vectorises it, so that this runs at the speed of memory.
        uint32_t top = 0;
        for (size_t i = 0; i < now.size(); ++i) top = std::max<uint32_t>(top, wide[i] = now[i]);
        scan.largest = std::max<int64_t>(scan.largest, top);
        hash.add(wide.data(), now.size() * sizeof(uint32_t));
      }
    });
  }
  scan.xxh64 = hash.value();
  return scan;
}

void TokenArray::check(int64_t vocab, int64_t largest) const {
  if (largest < vocab) return;
  std::vector<uint32_t> scratch(kMany);
  for (const Piece& piece : pieces_) {
    each_run(piece, 0, piece.size, scratch, [&](auto ids, int64_t begin) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < vocab) continue;
        throw_error(
            "{}: token {} at position {} is outside the vocabulary of {}; raise model.vocab to at least {}, "
            "or tokenize the data with the model's tokenizer",
            piece.source, ids[i], piece.source_begin + begin + static_cast<int64_t>(i), vocab, largest + 1);
      }
    });
  }
}

}  // namespace trireme
