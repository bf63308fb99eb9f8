// What a byte-level BPE tokenizer consists of, as plain data, and the readers of its two file formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// GPT-2's way of cutting text into words before merging, as a PCRE2 pattern.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct BpeVocabulary {
  struct Merge {
    int32_t left, right, result;  // ids; the position in `merges` is the rank, lower merges first
  };
  enum class WholeWords { merge, lookup };  // lookup: a word that is itself a token is not merged up to

  std::vector<std::string> tokens;  // id -> bytes; "" where no token has the id
  std::vector<int32_t> byte_ids;    // byte -> id, 256 of them
  std::vector<Merge> merges;
  std::vector<int32_t> in_text;  // tokens that are looked for in the text before it is cut into words
  std::vector<int32_t> special;  // tokens that no text becomes
  std::string pattern{kGpt2Pattern};
  std::optional<int32_t> end_of_text;
  WholeWords whole_words = WholeWords::merge;
};

// `encoder.json` (token -> id) and `vocab.bpe` (a "#version" line, then one merge per line). `name` is for
// error messages. Throws Error when the two do not fit together.
BpeVocabulary parse_gpt2_vocabulary(std::string_view encoder_json, std::string_view vocab_bpe,
                                    std::string_view name);

// Hugging Face's tokenizer.json. Whatever would change the ids and is not byte-level BPE (a normaliser,
// another model, byte fallback) is refused by its name rather than ignored. Added tokens are found in text,
// as there, unless they are special: text must not forge those.
BpeVocabulary parse_tokenizer_json(std::string_view json, std::string_view name);

// The bytes behind the printable stand-ins that both formats use (byte 0x20 is written as U+0120);
// nothing when the text holds a character that stands for no byte.
std::optional<std::string> bytes_of_printable(std::string_view text);

}  // namespace trireme
