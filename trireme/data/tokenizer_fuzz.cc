// tokenizer.json all the way, from the file to ids and back: refused with an Error, or every text comes back
// as it was, in ids of the vocabulary. Input: JSON that is merged into a sound tokenizer.json (RFC 7396),
// which few changes leave one, then NUL and a text.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/data/test_vocabulary.h"
#include "trireme/data/tokenizer.h"

namespace {

using nlohmann::json;

json sound_tokenizer() {
  using namespace trireme;
  json merges = json::array();
  for (const auto& [left, right] : small_merges())
    merges.push_back({printable_of_bytes(left), printable_of_bytes(right)});
  return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", json::parse(encoder_json_of(vocabulary_of(small_merges())))},
            {"merges", merges}}}};
}

// Changes that are nested too deeply to be merged are tried as the whole file.
std::string changed(std::string_view change) {
  static const json sound = sound_tokenizer();
  json patch;
  try {
    patch = trireme::parse_json(change, "fuzz");
  } catch (const trireme::Error&) {
  }
  if (!patch.is_object()) return std::string(change);
  json result = sound;
  result.merge_patch(patch);
  return result.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  const std::string_view text = input.substr(std::min(end + 1, size));
  const std::string file = changed(input.substr(0, end));
  try {
    const auto tokenizer = make_bpe_tokenizer(parse_tokenizer_json(file, "fuzz"), "fuzz");
    const std::vector<int32_t> ids = tokenizer->encode(text);
    for (const int32_t id : ids) TRIREME_CHECK((id >= 0 && id < tokenizer->vocab_size()));
    TRIREME_CHECK(tokenizer->decode(ids) == text);
  } catch (const Error&) {
  }
  return 0;
}
