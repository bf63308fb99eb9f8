// The byte tokenizer, and the choice of a tokenizer by name; BPE is in bpe.cc.
#include "trireme/data/tokenizer.h"

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int32_t vocab_size() const override { return 256; }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] > 255) {
        throw_error(
            "decode: token {} at position {} is not a byte (0 to 255); was it made by another tokenizer?",
            ids[i], i);
      }
      text.push_back(static_cast<char>(ids[i]));
    }
    return text;
  }
};

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode(text, ids);
  return ids;
}

std::shared_ptr<const Tokenizer> byte_tokenizer() {
  return std::make_shared<ByteTokenizer>();
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& spec, const std::filesystem::path& path) {
  if (spec == "bytes") return byte_tokenizer();
  if (spec == "gpt2") {
    if (path.empty()) {
      throw_error(
          "data.tokenizer is gpt2 but data.tokenizer_path is empty; give the folder that holds encoder.json "
          "and vocab.bpe");
    }
    return open_bpe_tokenizer(path);
  }
  std::error_code ignored;
  if (std::filesystem::exists(spec, ignored)) return open_bpe_tokenizer(spec);
  const std::string known[] = {"bytes", "gpt2"};
  const std::string guess = nearest(spec, known);
  throw_error("data.tokenizer: '{}' is neither a known tokenizer (bytes, gpt2) nor a path that exists{}",
              spec, guess.empty() ? "" : "; did you mean " + guess + "?");
}

}  // namespace trireme
