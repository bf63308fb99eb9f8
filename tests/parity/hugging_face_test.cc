// Folders as Hugging Face has them (hugging_face/make_folders.py, with the logits that their models give):
// read, run, exported and read again; and whatever does not fit, refused by name.
#include "trireme/models/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint_files.h"
#include "trireme/run/export.h"
#include "trireme/run/weights.h"
#include "trireme/runtime/executor.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

fs::path source_folder(const std::string& name) {
  return fs::path(TRIREME_GOLDEN_DIR).parent_path() / "hugging_face" / name;
}

json read_json(const fs::path& path) {
  return json::parse(read_text(path));
}

// The settings that a folder's config.json asks for, for sequences of so many tokens.
ModelOptions model_of(const fs::path& folder, int64_t seq = 0) {
  ModelOptions model = parse_hugging_face_config(read_text(folder / "config.json"), "config.json").model;
  if (model.family != "gpt" && seq > 0) model.seq = seq;
  return model;
}

// A forward program with its weights.
class Forward {
 public:
  Forward(const ModelOptions& model, int64_t tokens)
      : device_(make_cpu_device(2)),
        executor_(
            build_program({forward_graph(model, {1, Shape{tokens}}, DType::f32)}, workspace_query(*device_)),
            *device_) {}

  std::vector<PartView> parts() {
    std::vector<PartView> parts;
    for (const State& slot : executor_.program().states)
      parts.push_back({slot.name, view_of(slot), all_of(slot.type.shape), reach_of(executor_, slot.name)});
    return parts;
  }

  std::vector<float> logits(const std::vector<int32_t>& ids, int64_t vocab) {
    std::vector<float> logits(ids.size() * vocab);
    executor_.set_input(0, "ids", ids.data(), ids.size() * sizeof(int32_t));
    executor_.run(0);
    executor_.read_output(0, "logits", logits.data(), logits.size() * sizeof(float));
    return logits;
  }

 private:
  std::unique_ptr<Device> device_;
  Executor executor_;
};

// What is read of a folder, by name.
std::map<std::string, std::vector<float>> read_all(const fs::path& folder, const ModelOptions& model) {
  Forward forward(model, 1);
  const std::vector<PartView> parts = forward.parts();
  read_weights(folder, model, parts);
  std::map<std::string, std::vector<float>> values;
  for (const PartView& part : parts) values[part.name].resize(part.view.elements());
  for (const PartView& part : parts) part.reach.read(0, values[part.name].data(), part.view.bytes());
  return values;
}

class HuggingFace : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { fs::remove_all(scratch()); }
  static fs::path scratch() {
    return fs::path(::testing::TempDir()) / ("hugging_face_" + std::to_string(::getpid()));
  }
  // A copy that may be changed.
  static fs::path copied(const std::string& name) {
    fs::remove_all(scratch());
    fs::copy(source_folder(name), scratch());
    return scratch();
  }
};

TEST_P(HuggingFace, GivesTheLogitsOfTransformers) {
  const fs::path folder = source_folder(GetParam());
  const json expected = read_json(folder / "expected.json");
  const auto ids = expected["ids"].get<std::vector<int32_t>>();
  const ModelOptions model = model_of(folder, static_cast<int64_t>(ids.size()));
  Forward forward(model, static_cast<int64_t>(ids.size()));
  read_weights(folder, model, forward.parts());
  const std::vector<float> found = forward.logits(ids, model.vocab);
  double largest = 0, difference = 0;
  for (size_t t = 0; t < ids.size(); ++t) {
    ASSERT_EQ(expected["logits"][t].size(), static_cast<size_t>(model.vocab));
    for (int64_t v = 0; v < model.vocab; ++v) {
      const double wanted = expected["logits"][t][v];
      largest = std::max(largest, std::abs(wanted));
      difference = std::max(difference, std::abs(found[t * model.vocab + v] - wanted));
    }
  }
  EXPECT_GT(largest, 1);
  EXPECT_LT(difference / largest, 2e-6);
}

// A rank of a plan has parts of tensors: here every second row and the first columns.
TEST_P(HuggingFace, APartIsWhatTheWholeHasThere) {
  const fs::path folder = source_folder(GetParam());
  const ModelOptions model = model_of(folder, 8);
  const auto whole = read_all(folder, model);
  Forward forward(model, 1);
  std::vector<PartView> parts = forward.parts();
  std::vector<std::vector<float>> memory;
  for (PartView& part : parts) {
    TensorPart& cut = part.part;
    for (size_t d = 0; d < cut.pieces.size(); ++d) {
      const int64_t extent = cut.whole[static_cast<int>(d)];
      cut.pieces[d].clear();
      for (int64_t i = 0; i < (d == 0 ? extent : extent / 2); i += d == 0 ? 2 : 1)
        cut.pieces[d].push_back({i, 1});
    }
    memory.emplace_back(cut.shape().elements(), -77.0f);
    part.view = {memory.back().data(), DType::f32, cut.shape()};
    part.reach = {};
  }
  read_weights(folder, model, parts);
  for (const PartView& part : parts) {
    const std::vector<float>& all = whole.at(part.name);
    const int64_t width = part.part.whole.rank() == 2 ? part.part.whole[1] : 1;
    const int64_t columns = part.part.whole.rank() == 2 ? width / 2 : 1;
    for (int64_t i = 0; i < part.view.elements(); ++i)
      ASSERT_EQ(part.view.as<float>()[i], all[i / columns * 2 * width + i % columns])
          << part.name << " " << i;
  }
}

TEST_P(HuggingFace, ExportedAndReadAgainItIsTheSame) {
  const fs::path folder = source_folder(GetParam()), exported = scratch() / "deeper" / "model";
  const ModelOptions model = model_of(folder, 8);
  Forward forward(model, 1);
  const std::vector<PartView> parts = forward.parts();
  read_weights(folder, model, parts);
  fs::create_directories(scratch());
  std::vector<NamedTensor> tensors;
  for (const PartView& part : parts) tensors.push_back({part.name, part.view, part.reach});
  write_safetensors(scratch() / "ours.safetensors", tensors);
  export_hugging_face(model, TensorFiles(scratch() / "ours.safetensors"), exported);
  EXPECT_EQ(read_all(exported, model), read_all(folder, model));

  // The keys that transformers needs, as the source spells them.
  const json written = read_json(exported / "config.json"), source = read_json(folder / "config.json");
  for (const char* key :
       {"model_type", "vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "layer_norm_epsilon",
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "rms_norm_eps", "rope_theta", "hidden_act"}) {
    EXPECT_EQ(written.value(key, json()), source.value(key, json())) << key;
  }
  EXPECT_EQ(written["architectures"][0], model.family == "gpt" ? "GPT2LMHeadModel" : "LlamaForCausalLM");
  const SafetensorsFile file(exported / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_TRUE(file.find(model.family == "gpt" ? "transformer.h.0.attn.c_attn.weight"
                                              : "model.layers.0.self_attn.q_proj.weight"));
  EXPECT_THAT(
      error_of([&] { export_hugging_face(model, TensorFiles(scratch() / "ours.safetensors"), exported); }),
      HasSubstr("not an empty folder"));
}

INSTANTIATE_TEST_SUITE_P(Folders, HuggingFace,
                         ::testing::Values("gpt2", "gpt2_sharded", "llama", "llama_sharded"));

// Reads a folder of which config.json was changed, for the model that the unchanged one asks for.
class Changed : public HuggingFace {
 protected:
  static std::string error_with(const std::string& name, const char* key, const json& value) {
    const fs::path folder = copied(name);
    const ModelOptions model = model_of(folder, 8);
    json config = read_json(folder / "config.json");
    config[key] = value;
    std::ofstream(folder / "config.json") << config.dump();
    return error_of([&] { read_all(folder, model); });
  }
};

TEST_F(Changed, ASettingThatDiffersIsToldWithBothValues) {
  EXPECT_THAT(error_with("gpt2", "n_head", 4),
              AllOf(HasSubstr("n_head = 4, but model.heads = 2"), HasSubstr("--model.heads=4")));
  EXPECT_THAT(error_with("gpt2", "layer_norm_epsilon", 1e-6),
              HasSubstr("layer_norm_epsilon = 1e-06, but model.norm_eps = 1e-05"));
  EXPECT_THAT(error_with("gpt2", "n_positions", 1024), HasSubstr("n_positions = 1024, but model.seq = 12"));
  EXPECT_THAT(error_with("llama", "num_key_value_heads", 4),
              HasSubstr("num_key_value_heads = 4, but model.kv_heads = 2"));
  EXPECT_THAT(error_with("llama", "rope_theta", 10000.0),
              HasSubstr("rope_theta = 10000.0, but model.rope_base = 500"));
  EXPECT_THAT(error_with("llama", "rms_norm_eps", nullptr),
              HasSubstr("rms_norm_eps = 1e-06, but model.norm_eps = 0.001"));
  EXPECT_THAT(error_with("llama", "rope_parameters", json{{"rope_type", "default"}, {"rope_theta", 1e4}}),
              HasSubstr("but model.rope_base = 500"));
  EXPECT_THAT(error_with("llama", "tie_word_embeddings", true),
              HasSubstr("tie_word_embeddings = true, but model.tie_embeddings = false"));
  EXPECT_THAT(error_with("llama", "max_position_embeddings", 7), HasSubstr("7 positions, but model.seq = 8"));
  EXPECT_THAT(error_with("llama", "model_type", "gpt2"), HasSubstr("model.family"));
}

TEST_F(Changed, WhatOurModelsDoNotComputeIsRefused) {
  EXPECT_THAT(error_with("gpt2", "model_type", "mistral"),
              HasSubstr("model_type = \"mistral\" is not supported"));
  EXPECT_THAT(error_with("gpt2", "activation_function", "gelu"),
              HasSubstr("activation_function = \"gelu\" is not supported"));
  EXPECT_THAT(error_with("gpt2", "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx = true"));
  EXPECT_THAT(error_with("gpt2", "scale_attn_weights", false), HasSubstr("scale_attn_weights = false"));
  EXPECT_THAT(error_with("gpt2", "tie_word_embeddings", false), HasSubstr("tie_word_embeddings = false"));
  EXPECT_THAT(error_with("gpt2", "n_layer", "two"), HasSubstr("n_layer = \"two\" found"));
  EXPECT_THAT(error_with("llama", "rope_scaling", json{{"rope_type", "llama3"}, {"factor", 8.0}}),
              HasSubstr("rope_scaling = "));
  EXPECT_THAT(error_with("llama", "rope_parameters", json{{"rope_type", "yarn"}}),
              HasSubstr("rope_type default"));
  EXPECT_THAT(error_with("llama", "hidden_act", "gelu"), HasSubstr("hidden_act = \"gelu\""));
  EXPECT_THAT(error_with("llama", "attention_bias", true), HasSubstr("attention_bias = true"));
  EXPECT_THAT(error_with("llama", "mlp_bias", true), HasSubstr("mlp_bias = true"));
  EXPECT_THAT(error_with("llama", "head_dim", 8), HasSubstr("head_dim = 8 is not supported"));
  EXPECT_THAT(error_with("llama", "quantization_config", json{{"bits", 4}}),
              HasSubstr("quantization_config"));
}

// The same folder with tensors renamed, left out or of another shape.
TEST_F(Changed, TensorsThatDoNotFitAreNamed) {
  const fs::path folder = copied("llama");
  const ModelOptions model = model_of(folder, 8);
  std::vector<std::vector<float>> memory;
  std::vector<NamedTensor> tensors;
  const TensorFiles source(source_folder("llama") / "model.safetensors");
  for (const TensorFiles::Tensor& tensor : source.tensors()) {
    std::vector<float>& values = memory.emplace_back(tensor.shape.elements());
    source.read(tensor, {tensor.name, {values.data(), DType::f32, tensor.shape}, all_of(tensor.shape)});
    tensors.push_back({tensor.name, {values.data(), DType::f32, tensor.shape}});
  }
  const auto error_when = [&](const auto& change) {
    std::vector<NamedTensor> changed = tensors;
    change(changed);
    write_safetensors(folder / "model.safetensors", changed);
    return error_of([&] { read_all(folder, model); });
  };
  const auto at = [](std::vector<NamedTensor>& all, const char* name) {
    return std::ranges::find(all, name, &NamedTensor::name);
  };
  EXPECT_EQ(error_when([](auto&) {}), "no error");
  EXPECT_THAT(error_when([&](auto& all) { at(all, "lm_head.weight")->name = "score.weight"; }),
              AllOf(HasSubstr("missing: 'lm_head.weight' [256,16]"),
                    HasSubstr("not of this model: 'score.weight' [256,16]")));
  EXPECT_THAT(error_when([&](auto& all) {
                at(all, "lm_head.weight")->view.shape = {16, 256};
              }),
              HasSubstr("'lm_head.weight' is [16,256], expected [256,16]"));
  std::vector<int32_t> integers(16);
  EXPECT_THAT(error_when([&](auto& all) {
                at(all, "model.norm.weight")->view = {integers.data(), DType::i32, {16}};
              }),
              HasSubstr("'model.norm.weight' is I32, expected F32, BF16 or F16"));
}

TEST_F(Changed, FoldersWithoutWeightsAreRefused) {
  const fs::path folder = copied("gpt2");
  const ModelOptions model = model_of(folder);
  fs::rename(folder / "model.safetensors", folder / "pytorch_model.bin");
  EXPECT_THAT(error_of([&] { read_all(folder, model); }), HasSubstr("pickle"));
  fs::remove(folder / "pytorch_model.bin");
  EXPECT_THAT(error_of([&] { read_all(folder, model); }), HasSubstr("no weights found"));
  fs::remove(folder / "config.json");
  EXPECT_THAT(error_of([&] { read_all(folder, model); }), HasSubstr("neither a run's folder"));
  EXPECT_THAT(error_of([&] { read_all(folder / "nothing", model); }), HasSubstr("there is no such folder"));
  std::ofstream(folder / "config.json") << std::string(100'000, '[');
  EXPECT_THAT(error_of([&] { read_all(folder, model); }), HasSubstr("levels deep"));
}

TEST(Export, FamiliesWithoutAFormAreRefused) {
  ModelOptions model;
  model.family = "lstm";
  EXPECT_THAT(error_of([&] { hugging_face_config(model); }), HasSubstr("model.family = lstm has no form"));
}

}  // namespace
}  // namespace trireme
