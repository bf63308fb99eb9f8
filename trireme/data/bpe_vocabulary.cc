// Readers of encoder.json + vocab.bpe and of tokenizer.json; see bpe_vocabulary.h. Both end in the same
// tables by bytes and ids, checked so that encoding can never miss: all 256 bytes are tokens and the
// result of every merge is one.
#include "trireme/data/bpe_vocabulary.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "trireme/base/error.h"
#include "trireme/base/json.h"

namespace trireme {
namespace {

using nlohmann::json;

// Bytes that print stand for themselves; the others, in order, for the code points from 256 on.
std::array<int, 512> make_byte_of_code_point() {
  std::array<int, 512> table;
  table.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table[prints ? byte : next++] = byte;
  }
  return table;
}

json parse(std::string_view text, std::string_view name) {
  json root = parse_json(text, name);
  if (root.is_discarded()) throw_error("{}: not valid JSON; fetch the file again", name);
  return root;
}

// Fills a vocabulary step by step and keeps the inverse map (bytes -> id) for it.
class VocabularyBuilder {
 public:
  VocabularyBuilder(std::string_view name, size_t entries) : name_(name), id_limit_(2 * entries + 4096) {}

  void add(const json& id, std::string bytes) {
    if (!id.is_number_integer() || id.get<double>() < 0 ||
        id.get<double>() >= static_cast<double>(id_limit_)) {
      throw_error("{}: the id of a token is {}, an integer from 0 below {} was expected", name_,
                  id.dump(-1, ' ', false, json::error_handler_t::replace), id_limit_);
    }
    const size_t index = id.get<size_t>();
    if (bytes.empty()) throw_error("{}: token {} is empty", name_, index);
    if (index >= vocabulary_.tokens.size()) vocabulary_.tokens.resize(index + 1);
    std::string& token = vocabulary_.tokens[index];
    if (!token.empty() && token != bytes) throw_error("{}: id {} belongs to two tokens", name_, index);
    token = std::move(bytes);
    ids_.emplace(token, static_cast<int32_t>(index));
    if (token == "<|endoftext|>" || token == "<|end_of_text|>")
      vocabulary_.end_of_text = static_cast<int32_t>(index);
  }

  void add_vocabulary(const json& entries) {
    if (!entries.is_object())
      throw_error("{}: an object of token to id was expected, found {}", name_, entries.type_name());
    for (const auto& [token, id] : entries.items()) {
      const std::optional<std::string> bytes = bytes_of_printable(token);
      // A special token may be written literally, outside the byte alphabet.
      add(id, bytes ? *bytes : token);
    }
  }

  void add_merge(std::string_view left, std::string_view right) {
    const auto left_bytes = bytes_of_printable(left), right_bytes = bytes_of_printable(right);
    if (!left_bytes || !right_bytes) {
      throw_error("{}: merge {} ('{} {}') is not written in the byte alphabet of GPT-2", name_,
                  vocabulary_.merges.size() + 1, left, right);
    }
    const int32_t result = id_of(*left_bytes + *right_bytes);
    vocabulary_.merges.push_back({id_of(*left_bytes), id_of(*right_bytes), result});
  }

  BpeVocabulary finish() {
    vocabulary_.byte_ids.resize(256);
    for (int byte = 0; byte < 256; ++byte) {
      const auto it = ids_.find(std::string(1, static_cast<char>(byte)));
      if (it == ids_.end()) {
        throw_error(
            "{}: no token for byte {:#04x}; a byte-level vocabulary has one for each of the 256 bytes", name_,
            byte);
      }
      vocabulary_.byte_ids[byte] = it->second;
    }
    return std::move(vocabulary_);
  }

  BpeVocabulary& vocabulary() { return vocabulary_; }

 private:
  int32_t id_of(const std::string& bytes) const {
    const auto it = ids_.find(bytes);
    if (it == ids_.end()) {
      throw_error(
          "{}: merge {} needs a token that the vocabulary does not have; do the two files belong together?",
          name_, vocabulary_.merges.size() + 1);
    }
    return it->second;
  }

  std::string name_;
  size_t id_limit_;  // bounds the memory that a wild id could ask for
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, int32_t> ids_;
};

// The word pattern that a "pre_tokenizer" of tokenizer.json asks for.
std::string pattern_of(const json& pre, std::string_view name) {
  const json steps = pre.is_object() && pre.value("type", "") == "Sequence"
                         ? pre.value("pretokenizers", json::array())
                         : json::array({pre});
  std::string pattern;
  bool byte_level = false;
  const auto use = [&](std::string next) {
    if (!pattern.empty()) throw_error("{}: the pre-tokenizer has two word patterns, one was expected", name);
    pattern = std::move(next);
  };
  for (const json& step : steps) {
    const std::string type = step.is_object() ? step.value("type", "") : "";
    if (type == "ByteLevel") {
      byte_level = true;
      if (step.value("add_prefix_space", false)) throw_error("{}: add_prefix_space is not supported", name);
      if (step.value("use_regex", true)) use(std::string(kGpt2Pattern));
    } else if (type == "Split" && step.contains("pattern") && step["pattern"].contains("Regex") &&
               step.value("behavior", "") == "Isolated" && !step.value("invert", false)) {
      use(step["pattern"]["Regex"].get<std::string>());
    } else {
      throw_error("{}: pre-tokenizer '{}' is not supported; byte-level BPE (as of GPT-2 or Llama 3) is", name,
                  type.empty() ? "null" : type);
    }
  }
  if (!byte_level || pattern.empty())
    throw_error("{}: no ByteLevel pre-tokenizer found; byte-level BPE was expected", name);
  return pattern;
}

// Throws unless there is none: it would change the text before it is cut.
void refuse_normalizer(const json& root, std::string_view name) {
  const json normalizer = root.value("normalizer", json());
  if (normalizer.is_null()) return;
  const std::string type = normalizer.is_object() ? normalizer.value("type", "?") : "?";
  throw_error("{}: the normalizer {} is not supported; byte-level BPE (as of GPT-2 or Llama 3) has none",
              name, type);
}

void add_token(const json& token, VocabularyBuilder& builder, std::string_view name) {
  const std::string content = token.at("content").get<std::string>();
  builder.add(token.at("id"), content);
  if (token.value("special", false)) {
    builder.vocabulary().special.push_back(token.at("id").get<int32_t>());
    return;
  }
  for (const char* key : {"lstrip", "rstrip", "single_word"}) {
    if (token.value(key, false))
      throw_error("{}: the added token '{}' has {} set, which is not supported", name, content, key);
  }
  builder.vocabulary().in_text.push_back(token.at("id").get<int32_t>());
}

void refuse_if_set(const json& object, const char* key, std::string_view name) {
  if (object.contains(key) && !object[key].is_null() && object[key] != "")
    throw_error("{}: '{}' is set, which byte-level BPE does not use; it is not supported", name, key);
}

BpeVocabulary read_tokenizer_json(const json& root, std::string_view name) {
  if (!root.is_object() || !root.contains("model") || !root["model"].is_object())
    throw_error("{}: no 'model' object found; is this a tokenizer.json?", name);
  const json& model = root["model"];
  if (model.value("type", "BPE") != "BPE")
    throw_error("{}: model type '{}' is not supported; byte-level BPE is", name, model.value("type", ""));
  if (model.value("byte_fallback", false))
    throw_error("{}: byte_fallback (SentencePiece) is not supported; byte-level BPE is", name);
  refuse_normalizer(root, name);
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_if_set(model, key, name);
  if (!model.contains("vocab") || !model.contains("merges") || !model["merges"].is_array())
    throw_error("{}: model.vocab and model.merges were expected", name);

  const json added = root.value("added_tokens", json::array());
  VocabularyBuilder builder(name, model["vocab"].size() + added.size());
  builder.add_vocabulary(model["vocab"]);
  for (const json& token : added) add_token(token, builder, name);
  for (const json& merge : model["merges"]) {
    if (merge.is_array() && merge.size() == 2) {
      builder.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      const std::string& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos) throw_error("{}: merge '{}' is not two tokens", name, text);
      builder.add_merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
    }
  }
  builder.vocabulary().pattern = pattern_of(root.value("pre_tokenizer", json()), name);
  if (model.value("ignore_merges", false))
    builder.vocabulary().whole_words = BpeVocabulary::WholeWords::lookup;
  return builder.finish();
}

}  // namespace

std::optional<std::string> bytes_of_printable(std::string_view text) {
  static const std::array<int, 512> byte_of = make_byte_of_code_point();
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<uint8_t>(text[i]);
    if (code >= 0x80) {  // all stand-ins are below U+0200, so two bytes of UTF-8 are the most there can be
      if ((code & 0xe0) != 0xc0 || i + 1 == text.size() || (text[i + 1] & 0xc0) != 0x80) return std::nullopt;
      code = ((code & 0x1f) << 6) | (static_cast<uint8_t>(text[++i]) & 0x3f);
    }
    if (code >= byte_of.size() || byte_of[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of[code]));
  }
  return bytes;
}

BpeVocabulary parse_gpt2_vocabulary(std::string_view encoder_json, std::string_view vocab_bpe,
                                    std::string_view name) {
  const json entries = parse(encoder_json, name);
  VocabularyBuilder builder(name, entries.size());
  builder.add_vocabulary(entries);
  for (size_t line_number = 1; !vocab_bpe.empty(); ++line_number) {
    const size_t end = std::min(vocab_bpe.find('\n'), vocab_bpe.size());
    std::string_view line = vocab_bpe.substr(0, end);
    vocab_bpe.remove_prefix(std::min(end + 1, vocab_bpe.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      throw_error("{}: line {} of the merges is '{}', two tokens separated by a space were expected", name,
                  line_number, line);
    }
    builder.add_merge(line.substr(0, space), line.substr(space + 1));
  }
  return builder.finish();
}

BpeVocabulary parse_tokenizer_json(std::string_view text, std::string_view name) {
  const json root = parse(text, name);
  try {
    return read_tokenizer_json(root, name);
  } catch (const json::exception& error) {  // a field of another type than expected
    throw_error("{}: unexpected structure: {}", name, error.what());
  }
}

}  // namespace trireme
