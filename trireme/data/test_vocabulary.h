// For tests and fuzzers: a small byte-level vocabulary, as data and as the text of its files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/data/bpe_vocabulary.h"

namespace trireme {

// The printable stand-in of each byte, written out anew here so that the reader is checked against
// something other than itself.
inline std::string printable_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    int code = byte;
    if (byte <= 32) {
      code = 256 + byte;
    } else if (byte >= 127 && byte <= 160) {
      code = 256 + 33 + byte - 127;
    } else if (byte == 173) {
      code = 256 + 67;
    }
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xc0 | (code >> 6));
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return text;
}

using MergeList = std::vector<std::pair<std::string, std::string>>;

inline const MergeList& small_merges() {
  static const MergeList merges = {{"l", "l"}, {"h", "e"}, {"he", "ll"}, {"hell", "o"},
                                   {" ", "w"}, {"a", "a"}, {"aa", "aa"}, {"\xc3", "\xa9"}};
  return merges;
}

// Bytes have ids 0 to 255, the results of merges those after, "<|endoftext|>" the last.
inline BpeVocabulary vocabulary_of(const MergeList& merges) {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(std::string(1, static_cast<char>(byte)));
    vocabulary.byte_ids.push_back(byte);
  }
  const auto id_of = [&](const std::string& bytes) {
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (vocabulary.tokens[id] == bytes) return static_cast<int32_t>(id);
    }
    return -1;
  };
  for (const auto& [left, right] : merges) {
    vocabulary.tokens.push_back(left + right);
    vocabulary.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  vocabulary.end_of_text = static_cast<int32_t>(vocabulary.tokens.size());
  vocabulary.tokens.push_back("<|endoftext|>");
  return vocabulary;
}

inline std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

inline std::string encoder_json_of(const BpeVocabulary& vocabulary) {
  std::string json;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    json += (json.empty() ? "{" : ", ") + json_quoted(printable_of_bytes(vocabulary.tokens[id])) + ": " +
            std::to_string(id);
  }
  return json + "}";
}

inline std::string vocab_bpe_of(const MergeList& merges) {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges)
    text += printable_of_bytes(left) + " " + printable_of_bytes(right) + "\n";
  return text;
}

}  // namespace trireme
