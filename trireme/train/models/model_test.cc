// Names, shapes and numbers of parameters against the published models. Only graphs are made, no memory, so
// the models may have their full size.
#include "trireme/train/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/scope.h"
#include "trireme/train/step.h"

namespace trireme {
namespace {

using Shapes = std::map<std::string, Shape>;

// Parameters, and with Role::kBuffer running statistics.
Shapes states_of(const ModelOptions& model, const Shape& sample, Role role = Role::kParameter) {
  const Graph graph = forward_graph(model, {2, sample}, DType::f32);
  Shapes shapes;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::kState && value.role == role) shapes[value.name] = value.type.shape;
  }
  return shapes;
}

int64_t count(const Shapes& shapes) {
  int64_t total = 0;
  for (const auto& [name, shape] : shapes) total += shape.elements();
  return total;
}

ModelOptions language(const char* family, int64_t layers, int64_t heads, int64_t hidden, int64_t vocab) {
  ModelOptions model;
  model.family = family;
  model.layers = layers;
  model.heads = heads;
  model.hidden = hidden;
  model.vocab = vocab;
  model.seq = 1024;
  return model;
}

TEST(Gpt, IsGpt2) {
  const Shapes shapes = states_of(language("gpt", 12, 12, 768, 50257), {16});
  EXPECT_EQ(count(shapes), 124'439'808);
  Shapes expected = {{"wte.weight", {50257, 768}},
                     {"wpe.weight", {1024, 768}},
                     {"ln_f.weight", {768}},
                     {"ln_f.bias", {768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = "h." + std::to_string(layer);
    expected.insert({{name + ".ln_1.weight", {768}},
                     {name + ".ln_1.bias", {768}},
                     {name + ".attn.c_attn.weight", {768, 2304}},
                     {name + ".attn.c_attn.bias", {2304}},
                     {name + ".attn.c_proj.weight", {768, 768}},
                     {name + ".attn.c_proj.bias", {768}},
                     {name + ".ln_2.weight", {768}},
                     {name + ".ln_2.bias", {768}},
                     {name + ".mlp.c_fc.weight", {768, 3072}},
                     {name + ".mlp.c_fc.bias", {3072}},
                     {name + ".mlp.c_proj.weight", {3072, 768}},
                     {name + ".mlp.c_proj.bias", {768}}});
  }
  EXPECT_EQ(shapes, expected);
}

TEST(Gpt, IsGpt2Xl) {
  EXPECT_EQ(count(states_of(language("gpt", 48, 25, 1600, 50257), {16})), 1'557'611'200);
}

TEST(Llama, IsLlama2) {
  ModelOptions model = language("llama", 32, 32, 4096, 32000);
  model.feed_forward = 11008;
  EXPECT_EQ(count(states_of(model, {16})), 6'738'415'616);
}

TEST(Llama, GroupedHeadsHaveHuggingFacesNamesAndShapes) {
  ModelOptions model = language("llama", 22, 32, 2048, 32000);  // TinyLlama
  model.kv_heads = 4;
  model.feed_forward = 5632;
  const Shapes shapes = states_of(model, {16});
  EXPECT_EQ(count(shapes), 1'100'048'384);
  EXPECT_EQ(shapes.size(), 3u + 22 * 9);
  const std::string name = "model.layers.21.";
  for (const auto& [key, shape] : Shapes{{"model.embed_tokens.weight", {32000, 2048}},
                                         {name + "input_layernorm.weight", {2048}},
                                         {name + "self_attn.q_proj.weight", {2048, 2048}},
                                         {name + "self_attn.k_proj.weight", {256, 2048}},
                                         {name + "self_attn.v_proj.weight", {256, 2048}},
                                         {name + "self_attn.o_proj.weight", {2048, 2048}},
                                         {name + "post_attention_layernorm.weight", {2048}},
                                         {name + "mlp.gate_proj.weight", {5632, 2048}},
                                         {name + "mlp.up_proj.weight", {5632, 2048}},
                                         {name + "mlp.down_proj.weight", {2048, 5632}},
                                         {"model.norm.weight", {2048}},
                                         {"lm_head.weight", {32000, 2048}}}) {
    ASSERT_TRUE(shapes.contains(key)) << key;
    EXPECT_EQ(shapes.at(key), shape) << key;
  }
}

TEST(Llama, FeedForwardIsTwoThirdsOfFourTimesHidden) {
  EXPECT_EQ(states_of(language("llama", 1, 4, 128, 50), {16}).at("model.layers.0.mlp.up_proj.weight"),
            (Shape{352, 128}));  // 341 and a third, up to a multiple of 32
}

TEST(Lstm, HasPyTorchsNames) {
  EXPECT_EQ(states_of(language("lstm", 2, 1, 10, 30), {4}), (Shapes{{"embedding.weight", {30, 10}},
                                                                    {"lstm.weight_ih_l0", {40, 10}},
                                                                    {"lstm.weight_hh_l0", {40, 10}},
                                                                    {"lstm.bias_ih_l0", {40}},
                                                                    {"lstm.bias_hh_l0", {40}},
                                                                    {"lstm.weight_ih_l1", {40, 10}},
                                                                    {"lstm.weight_hh_l1", {40, 10}},
                                                                    {"lstm.bias_ih_l1", {40}},
                                                                    {"lstm.bias_hh_l1", {40}},
                                                                    {"head.weight", {30, 10}},
                                                                    {"head.bias", {30}}}));
}

TEST(Lstm, WhatWouldBeWrittenOutForMinutesIsRefused) {
  try {
    states_of(language("lstm", 100, 1, 10, 30), {1000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("100 layers over 1000 tokens"));
  }
}

ModelOptions vision(const char* family, int64_t layers, int64_t classes) {
  ModelOptions model;
  model.family = family;
  model.layers = layers;
  model.classes = classes;
  return model;
}

TEST(ResNet, CountsAreThePublishedOnes) {
  EXPECT_EQ(count(states_of(vision("resnet", 20, 10), {3, 32, 32})), 269'722);
  EXPECT_EQ(count(states_of(vision("resnet", 56, 10), {3, 32, 32})), 853'018);
  EXPECT_EQ(count(states_of(vision("resnet", 110, 10), {3, 32, 32})), 1'727'962);
  EXPECT_EQ(count(states_of(vision("resnet", 18, 1000), {3, 224, 224})), 11'689'512);
  EXPECT_EQ(count(states_of(vision("resnet", 50, 1000), {3, 224, 224})), 25'557'032);
}

TEST(ResNet, HasTorchvisionsNames) {
  const Shapes shapes = states_of(vision("resnet", 50, 1000), {3, 224, 224});
  EXPECT_EQ(shapes.size(), 161u);
  EXPECT_EQ(shapes.at("layer1.0.downsample.0.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer4.2.conv3.weight"), (Shape{2048, 512, 1, 1}));
  EXPECT_EQ(shapes.at("layer4.2.bn3.bias"), (Shape{2048}));
  EXPECT_EQ(shapes.at("fc.weight"), (Shape{1000, 2048}));
  const Shapes buffers = states_of(vision("resnet", 50, 1000), {3, 224, 224}, Role::kBuffer);
  EXPECT_EQ(buffers.size(), 106u);  // a mean and a variance for each of 53 norms
  EXPECT_EQ(buffers.at("layer1.0.downsample.1.running_var"), (Shape{256}));
}

TEST(ResNet, OtherDepthsAreRefused) {
  EXPECT_THROW(states_of(vision("resnet", 21, 10), {3, 32, 32}), Error);
}

TEST(LeNet, CountIsThePublishedOne) {
  EXPECT_EQ(count(states_of(vision("lenet", 0, 10), {1, 28, 28})), 61'706);
  EXPECT_THROW(states_of(vision("lenet", 0, 10), {1, 20, 20}), Error);
}

TEST(Mlp, LayersAndShapes) {
  ModelOptions model = vision("mlp", 2, 10);
  model.hidden = 300;
  EXPECT_EQ(states_of(model, {1, 28, 28}), (Shapes{{"layers.0.weight", {300, 784}},
                                                   {"layers.0.bias", {300}},
                                                   {"layers.1.weight", {10, 300}},
                                                   {"layers.1.bias", {10}}}));
}

// The names of nodes of a training step's first segment, without numbers that make them unique.
std::set<std::string> nodes_of(const ModelOptions& model, const Shape& sample,
                               const char* precision = "bf16") {
  TrainOptions train;
  train.precision = precision;
  const Graph graph = step_graphs(model, train, {}, {2, sample}, schedule_of(train)).segments[0].graph;
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    const std::string& name = graph.values[node.outputs[0]].name;
    EXPECT_NE(scope_of(name), "") << model.family << " makes %" << name;
    names.insert(name.substr(0, name.find('~')));
  }
  return names;
}

TEST(Models, ResultsAreNamedByBlocksAndParts) {
  const auto has = [](const std::set<std::string>& names, std::initializer_list<const char*> wanted) {
    for (const char* name : wanted)
      EXPECT_TRUE(names.contains(name)) << name << " is not among\n" << testing::PrintToString(names);
  };
  ModelOptions gpt = language("gpt", 2, 2, 8, 16);
  gpt.dropout = 0.1;
  has(nodes_of(gpt, {16}),
      {"embed/embedding", "embed/wte.weight.bf16", "h.1/ln_1/layer_norm", "h.1/attn/c_attn/matmul",
       "h.1/attn/c_attn/weight.bf16", "h.1/attn/attention", "h.1/attn/dropout", "h.1/add",
       "h.1/mlp/c_fc/matmul", "h.1/mlp/gelu", "head/matmul", "loss/cross_entropy",
       "loss/grad/cross_entropy_grad", "head/grad/matmul", "h.1/mlp/c_fc/grad/matmul",
       "h.1/mlp/c_fc/grad/cast", "embed/grad/embedding_grad"});
  has(nodes_of(language("llama", 1, 2, 8, 16), {16}),
      {"embed/embedding", "model.layers.0/input_layernorm/rms_norm", "model.layers.0/self_attn/rope",
       "model.layers.0/mlp/gate_proj/matmul", "head/lm_head/matmul"});
  has(nodes_of(language("lstm", 1, 1, 8, 16), {4}),
      {"embedding/embedding", "lstm.l0/matmul", "lstm.l0/t2/tanh", "lstm.l0/t2/grad/tanh_grad",
       "head/matmul"});
  has(nodes_of(vision("mlp", 2, 10), {1, 28, 28}), {"flatten/reshape", "layers.0/matmul", "layers.0/relu"});
  has(nodes_of(vision("lenet", 0, 10), {1, 28, 28}), {"conv1/conv2d", "conv1/max_pool2d", "fc3/matmul"});
  has(nodes_of(vision("resnet", 20, 10), {3, 32, 32}),
      {"stem/conv1/conv2d", "layer2.0/conv1/conv2d", "layer2.0/bn1/batch_norm", "layer2.0/pad",
       "linear/mean"});
  has(nodes_of(vision("resnet", 18, 10), {3, 224, 224}),
      {"stem/max_pool2d", "layer2.0/downsample.0/conv2d", "layer2.0/downsample.1/batch_norm", "fc/matmul"});
}

TEST(Models, NearestNameIsSuggested) {
  try {
    find_model("lama");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'llama'"));
  }
}

}  // namespace
}  // namespace trireme
