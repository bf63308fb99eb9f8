// The list of model families; see model.h.
#include "trireme/train/models/model.h"

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

constexpr ModelRecord kModels[] = {
    {"gpt", InputKind::kTokens, Decodes::kYes, "wte.weight",
     "model.layers model.heads model.hidden model.feed_forward model.seq model.norm_eps", gpt_logits},
    {"llama", InputKind::kTokens, Decodes::kYes, "model.embed_tokens.weight",
     "model.layers model.heads model.kv_heads model.hidden model.feed_forward model.rope_base model.norm_eps "
     "model.tie_embeddings",
     llama_logits},
    {"lstm", InputKind::kTokens, Decodes::kNo, "embedding.weight", "model.layers model.hidden", lstm_logits},
    {"mlp", InputKind::kImages, Decodes::kNo, "", "model.layers model.hidden", mlp_logits},
    {"lenet", InputKind::kImages, Decodes::kNo, "", "", lenet_logits},
    {"resnet", InputKind::kImages, Decodes::kNo, "", "model.layers", resnet_logits},
};

}  // namespace

std::vector<std::string> model_families() {
  std::vector<std::string> names;
  for (const ModelRecord& model : kModels) names.emplace_back(model.family);
  return names;
}

const ModelRecord& find_model(std::string_view family) {
  for (const ModelRecord& model : kModels) {
    if (model.family == family) return model;
  }
  const std::string guess = nearest(family, model_families());
  throw_error("there is no model family '{}'{}; there are {}", family,
              guess.empty() ? "" : fmt::format(" (did you mean '{}'?)", guess), join(model_families(), ", "));
}

std::vector<std::string> weight_settings(const ModelRecord& model) {
  return model.weight_settings.empty() ? std::vector<std::string>() : split(model.weight_settings, ' ');
}

int64_t head_size(const ModelOptions& options) {
  if (options.heads < 1 || options.hidden % options.heads != 0) {
    throw_error("model.hidden = {} cannot be shared evenly by model.heads = {}", options.hidden,
                options.heads);
  }
  return options.hidden / options.heads;
}

}  // namespace trireme
