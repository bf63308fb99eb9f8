// Text to token ids and back. Both directions work on bytes: decode(encode(text)) == text for any bytes,
// valid UTF-8 or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/bpe_vocabulary.h"

namespace trireme {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;
  virtual int32_t vocab_size() const = 0;  // ids are in [0, vocab_size)

  // Appends the ids of `text`. Special tokens are not looked for in the text: "<|endoftext|>" in a file
  // is thirteen characters, so that data cannot forge a document boundary. May be called from any thread.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  std::vector<int32_t> encode(std::string_view text) const;

  // Throws Error on an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // The token that separates documents, where the vocabulary has one.
  virtual std::optional<int32_t> end_of_text() const { return std::nullopt; }
};

// 256 tokens, one per byte.
std::shared_ptr<const Tokenizer> byte_tokenizer();

// Byte-level BPE from a folder with `encoder.json` + `vocab.bpe` (GPT-2), or from a `tokenizer.json` or a
// folder that holds one. Throws Error where a tokenizer.json asks for something other than byte-level BPE.
std::shared_ptr<const Tokenizer> open_bpe_tokenizer(const std::filesystem::path& path);

// "bytes"; "gpt2", read from `path`; or a path as open_bpe_tokenizer takes it.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& spec,
                                                const std::filesystem::path& path = {});

// BPE over a vocabulary that is already in memory.
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::string name);

}  // namespace trireme
