// A long sequence of token ids, 16 or 32 bits each, in memory or in mapped files. Immutable and cheap to
// copy: copies and slices share the storage.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class TokenArray {
 public:
  TokenArray() = default;

  // One piece of the sequence. `owner` keeps the memory alive; `source` names it in error messages.
  static TokenArray of(std::span<const uint16_t> ids, std::shared_ptr<const void> owner, std::string source);
  static TokenArray of(std::span<const uint32_t> ids, std::shared_ptr<const void> owner, std::string source);
  static TokenArray of(std::vector<uint16_t> ids, std::string source);
  static TokenArray of(std::vector<uint32_t> ids, std::string source);

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().size; }
  void append(const TokenArray& other);
  TokenArray slice(int64_t first, int64_t last) const;

  // Copies tokens [first, first + out.size()), which must exist.
  void copy(int64_t first, std::span<int32_t> out) const;

  int64_t largest() const;  // -1 when empty; reads everything

  // Throws Error, naming file, position, token and vocabulary, on the first token outside [0, vocab).
  void check(int64_t vocab) const;

 private:
  struct Piece {
    int64_t begin;  // in the whole sequence
    int64_t size;
    int64_t source_begin;    // where the piece begins in its source
    const uint16_t* narrow;  // one of the two is set
    const uint32_t* wide;
    std::shared_ptr<const void> owner;
    std::string source;
  };
  std::vector<Piece> pieces_;  // in order, without gaps, none empty
};

}  // namespace trireme
