// The table of model types; see hugging_face.h. Reading goes by what is known: each key that changes what a
// model computes is either understood or, when it is not at the value that means "nothing", refused.
#include "trireme/models/hugging_face.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/text.h"
#include "trireme/models/model.h"

namespace trireme {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Gives values by their keys, and remembers which setting each one became.
class Reader {
 public:
  Reader(const json& root, std::string_view where, StatedModel& config)
      : root_(root), where_(where), config_(config) {}

  // Null and absent are the same.
  json at(const char* key) const { return root_.value(key, json()); }

  void size(const char* key, int64_t standard, const char* setting, int64_t& to) {
    to = standard;
    const json value = at(key);
    if (!value.is_null()) {
      if (!value.is_number_integer() || value < 1 || value > kLargest)
        refuse(key, value, "a number of at least 1");
      to = value.get<int64_t>();
    }
    config_.keys.push_back({setting, key});
  }
  void real(const char* key, double standard, const char* setting, double& to) {
    const json value = at(key);
    if (!value.is_null() && !value.is_number()) refuse(key, value, "a number");
    to = value.is_null() ? standard : value.get<double>();
    config_.keys.push_back({setting, key});
  }
  bool flag(const char* key, bool standard) const {
    const json value = at(key);
    if (!value.is_null() && !value.is_boolean()) refuse(key, value, "true or false");
    return value.is_null() ? standard : value.get<bool>();
  }
  // What our model does not have: anything but `supported` is refused.
  void only(const char* key, const json& standard, const std::vector<json>& supported) const {
    const json value = at(key).is_null() ? standard : at(key);
    if (std::ranges::find(supported, value) != supported.end()) return;
    std::vector<std::string> texts;
    for (const json& one : supported) texts.push_back(shown(one));
    throw_error("{}: {} = {} is not supported by model.family = {}; {} is", where_, key, shown(value),
                config_.model.family, join(texts, " or "));
  }
  [[noreturn]] void refuse(const char* key, const json& found, std::string_view expected) const {
    throw_error("{}: {} = {} found, {} expected", where_, key, shown(found), expected);
  }

 private:
  static constexpr int64_t kLargest = 1'000'000'000;
  const json& root_;
  std::string_view where_;
  StatedModel& config_;
};

// GPT-2.

void read_gpt2(Reader& reader, StatedModel& config) {
  ModelOptions& model = config.model;
  reader.size("n_layer", 12, "model.layers", model.layers);
  reader.size("n_head", 12, "model.heads", model.heads);
  reader.size("n_embd", 768, "model.hidden", model.hidden);
  reader.size("n_inner", 4 * model.hidden, "model.feed_forward", model.feed_forward);
  reader.size("vocab_size", 50257, "model.vocab", model.vocab);
  reader.size("n_positions", 1024, "model.seq", model.seq);
  reader.real("layer_norm_epsilon", 1e-5, "model.norm_eps", model.norm_eps);
  config.positions = model.seq;
  // Three names of the tanh form; "gelu" is the other one.
  reader.only("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  reader.only("tie_word_embeddings", true, {true});
  reader.only("scale_attn_weights", true, {true});
  reader.only("scale_attn_by_inverse_layer_idx", false, {false});
  reader.only("add_cross_attention", false, {false});
}

json write_gpt2(const ModelOptions& model) {
  return {{"activation_function", "gelu_new"},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", model.dropout},
          {"resid_pdrop", model.dropout},
          {"initializer_range", 0.02},
          {"layer_norm_epsilon", model.norm_eps},
          {"n_ctx", model.seq},
          {"n_embd", model.hidden},
          {"n_head", model.heads},
          {"n_inner", model.feed_forward},
          {"n_layer", model.layers},
          {"n_positions", model.seq},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", true}};
}

constexpr std::string_view kGpt2Prefix = "transformer.";

std::optional<std::string> from_gpt2(const ModelOptions&, std::string_view name) {
  if (name.starts_with(kGpt2Prefix)) name.remove_prefix(kGpt2Prefix.size());
  // The causal mask, which is no weight, and the head, which is the table of tokens once more.
  const bool mask =
      name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  if (mask || name == "lm_head.weight") return std::nullopt;
  return std::string(name);
}
std::string to_gpt2(std::string_view name) {
  return std::string(kGpt2Prefix) + std::string(name);
}

// Llama.

void read_llama(Reader& reader, StatedModel& config) {
  ModelOptions& model = config.model;
  reader.size("num_hidden_layers", 32, "model.layers", model.layers);
  reader.size("num_attention_heads", 32, "model.heads", model.heads);
  reader.size("num_key_value_heads", model.heads, "model.kv_heads", model.kv_heads);
  reader.size("hidden_size", 4096, "model.hidden", model.hidden);
  reader.size("intermediate_size", 11008, "model.feed_forward", model.feed_forward);
  reader.size("vocab_size", 32000, "model.vocab", model.vocab);
  reader.real("rms_norm_eps", 1e-6, "model.norm_eps", model.norm_eps);
  reader.real("rope_theta", 10000.0, "model.rope_base", model.rope_base);
  model.tie_embeddings = reader.flag("tie_word_embeddings", false);
  config.keys.push_back({"model.tie_embeddings", "tie_word_embeddings"});
  if (const json value = reader.at("max_position_embeddings"); !value.is_null()) {
    if (!value.is_number_integer() || value < 1)
      reader.refuse("max_position_embeddings", value, "at least 1");
    config.positions = value.get<int64_t>();
  } else {
    config.positions = 2048;
  }
  // Newer files have the base among these; any other kind of positions is another model.
  if (const json rope = reader.at("rope_parameters"); rope.is_object()) {
    if (rope.value("rope_type", json("default")) != "default")
      reader.refuse("rope_parameters", rope, "rope_type default");
    if (const json base = rope.value("rope_theta", json()); base.is_number())
      model.rope_base = base.get<double>();
  } else if (!rope.is_null()) {
    reader.refuse("rope_parameters", rope, "an object");
  }
  reader.only("rope_scaling", nullptr, {nullptr});
  reader.only("partial_rotary_factor", 1.0, {1.0});
  reader.only("hidden_act", "silu", {"silu"});
  reader.only("attention_bias", false, {false});
  reader.only("mlp_bias", false, {false});
  if (model.hidden % model.heads == 0)
    reader.only("head_dim", model.hidden / model.heads, {model.hidden / model.heads});
}

json write_llama(const ModelOptions& model) {
  return {{"attention_bias", false},
          {"attention_dropout", 0.0},
          {"head_dim", model.hidden / model.heads},
          {"hidden_act", "silu"},
          {"hidden_size", model.hidden},
          {"initializer_range", 0.02},
          {"intermediate_size", model.feed_forward},
          {"max_position_embeddings", model.seq},
          {"mlp_bias", false},
          {"num_attention_heads", model.heads},
          {"num_hidden_layers", model.layers},
          {"num_key_value_heads", model.kv_heads},
          {"rms_norm_eps", model.norm_eps},
          {"rope_scaling", nullptr},
          {"rope_theta", model.rope_base},
          {"tie_word_embeddings", model.tie_embeddings}};
}

std::optional<std::string> from_llama(const ModelOptions& model, std::string_view name) {
  const bool tied_head = name == "lm_head.weight" && model.tie_embeddings;
  if (tied_head || name.ends_with(".rotary_emb.inv_freq")) return std::nullopt;
  return std::string(name);
}
std::string to_llama(std::string_view name) {
  return std::string(name);
}

struct ModelType {
  std::string_view type, architecture;
  const ModelRecord& (*model)();
  void (*read)(Reader&, StatedModel&);
  json (*write)(const ModelOptions&);
  std::optional<std::string> (*from)(const ModelOptions&, std::string_view);
  std::string (*to)(std::string_view);
};
constexpr ModelType kTypes[] = {
    {"gpt2", "GPT2LMHeadModel", gpt_model, read_gpt2, write_gpt2, from_gpt2, to_gpt2},
    {"llama", "LlamaForCausalLM", llama_model, read_llama, write_llama, from_llama, to_llama},
};

const ModelType& type_of(const ModelOptions& model) {
  const auto found =
      std::ranges::find_if(kTypes, [&](const ModelType& one) { return one.model().family == model.family; });
  if (found == std::end(kTypes))
    throw_error("model.family = {} has no form at Hugging Face; gpt and llama have", model.family);
  return *found;
}

// A config is flat; what is nested deeper than any known one is not worth a tree.
json parse(std::string_view text, std::string_view where) {
  json root = parse_json(text, where, /*most_levels=*/32);
  if (root.is_discarded()) throw_error("{}: not valid JSON", where);
  return root;
}

}  // namespace

StatedModel parse_hugging_face_config(std::string_view text, std::string_view where) {
  const json root = parse(text, where);
  if (!root.is_object()) throw_error("{}: an object expected, found {}", where, root.type_name());
  const json type = root.value("model_type", json());
  const auto known =
      std::ranges::find_if(kTypes, [&](const ModelType& one) { return type == json(std::string(one.type)); });
  if (known == std::end(kTypes))
    throw_error("{}: model_type = {} is not supported; \"gpt2\" and \"llama\" are", where, shown(type));
  StatedModel config;
  config.model.family = known->model().family;
  config.keys.push_back({"model.family", "model_type"});
  Reader reader(root, where, config);
  reader.only("quantization_config", nullptr, {nullptr});
  known->read(reader, config);
  return config;
}

std::string hugging_face_config(const ModelOptions& given) {
  const ModelType& type = type_of(given);
  if (given.moe.experts > 0)
    throw_error(
        "model.moe.experts = {}: weights of experts have no names at Hugging Face here yet; only dense "
        "models are exported",
        given.moe.experts);
  const ModelOptions model = type.model().with_automatic_sizes(given);
  json object = type.write(model);
  object["architectures"] = json::array({std::string(type.architecture)});
  object["model_type"] = std::string(type.type);
  object["torch_dtype"] = "float32";
  object["use_cache"] = true;
  object["vocab_size"] = model.vocab;
  // Without these transformers takes ids of the published model, which may lie outside this vocabulary.
  object["bos_token_id"] = nullptr;
  object["eos_token_id"] = nullptr;
  return object.dump(2) + "\n";
}

std::optional<std::string> name_from_hugging_face(const ModelOptions& model, std::string_view name) {
  return type_of(model).from(model, name);
}

std::string name_for_hugging_face(const ModelOptions& model, std::string_view name) {
  return type_of(model).to(name);
}

}  // namespace trireme
