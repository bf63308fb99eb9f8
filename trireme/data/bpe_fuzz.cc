// BPE on any bytes: text comes back as it was, and damaged vocabulary files are refused with an Error.
// The first byte chooses what the rest is.
#include "trireme/base/error.h"
#include "trireme/data/test_vocabulary.h"
#include "trireme/data/tokenizer.h"

namespace {

void round_trip(std::string_view text) {
  static const auto tokenizer =
      trireme::make_bpe_tokenizer(trireme::vocabulary_of(trireme::small_merges()), "fuzz");
  const std::vector<int32_t> ids = tokenizer->encode(text);
  TRIREME_CHECK(ids.size() <= text.size());
  TRIREME_CHECK(tokenizer->decode(ids) == text);
}

void use(trireme::BpeVocabulary vocabulary) {
  const auto tokenizer = trireme::make_bpe_tokenizer(std::move(vocabulary), "fuzz");
  const std::string text = "hello w\xc3\xa9 \xff 12";
  TRIREME_CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  static const std::string encoder =
      trireme::encoder_json_of(trireme::vocabulary_of(trireme::small_merges()));
  try {
    switch (data[0] % 4) {
      case 0:
        round_trip(text);
        break;
      case 1:
        use(trireme::parse_gpt2_vocabulary(encoder, text, "fuzz"));
        break;
      case 2:
        use(trireme::parse_gpt2_vocabulary(text, trireme::vocab_bpe_of(trireme::small_merges()), "fuzz"));
        break;
      default:
        use(trireme::parse_tokenizer_json(text, "fuzz"));
    }
  } catch (const trireme::Error&) {
  }
  return 0;
}
