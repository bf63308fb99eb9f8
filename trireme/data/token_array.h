// A long sequence of token ids, 16 or 32 bits each, in memory or in files. Immutable and cheap to copy:
// copies and slices share the storage. What is in files is read when it is used, and may by then be shorter
// or other than it was: whatever reads throws an Error then, and names file and place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/file.h"

namespace trireme {

class TokenArray {
 public:
  TokenArray() = default;

  // One piece of the sequence. `source` names it in error messages.
  static TokenArray of(std::vector<uint16_t> ids, std::string source);
  static TokenArray of(std::vector<uint32_t> ids, std::string source);
  // `count` ids of 2 or 4 bytes each, little-endian, from a byte of the file on.
  static TokenArray of(std::shared_ptr<const DataFile> file, int64_t offset_bytes, int64_t id_bytes,
                       int64_t count);

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().size; }
  void append(const TokenArray& other);
  TokenArray slice(int64_t first, int64_t last) const;

  // Copies tokens [first, first + out.size()), which must exist. All must be in [0, vocab). Allocates
  // nothing.
  void copy(int64_t first, int64_t vocab, std::span<int32_t> out) const;
  // The same, and as targets those that follow each, in one reading: there must be one more.
  void copy(int64_t first, int64_t vocab, std::span<int32_t> ids, std::span<int32_t> targets) const;

  // What reading everything once tells.
  struct Scan {
    int64_t largest = -1;  // -1 when empty
    uint64_t xxh64 = 0;    // of the ids as 32-bit numbers: the same however they are stored
  };
  Scan scan() const;

  // Throws Error on the first token outside [0, vocab); `largest` is scan()'s. Reads no more than that.
  void check(int64_t vocab, int64_t largest) const;

 private:
  struct Piece {
    int64_t begin;  // in the whole sequence
    int64_t size;
    int64_t source_begin;                // where the piece begins in its source, in ids
    int64_t id_bytes;                    // 2 or 4
    std::shared_ptr<const void> memory;  // of the first id of the source; or
    std::shared_ptr<const DataFile> file;
    int64_t file_offset;  // of the first id of the source, in bytes
    std::string source;
  };
  template <typename Id>
  static TokenArray own(std::vector<Id> ids, std::string source);
  // Calls body(ids, first) for one run of ids after another, from `from` of the piece on; they are u16 or
  // u32. What comes from a file goes through `scratch`, as much at a time as fits.
  template <typename Body>
  static void each_run(const Piece& piece, int64_t from, int64_t count, std::span<uint32_t> scratch,
                       const Body& body);
  // Calls body(i, token) for tokens first + i, i < count.
  template <typename Body>
  void each_token(int64_t first, int64_t count, int64_t vocab, const Body& body) const;

  std::vector<Piece> pieces_;  // in order, without gaps, none empty
};

}  // namespace trireme
