// Names, shapes and numbers of parameters against the published models. Only graphs are made, no memory, so
// the models may have their full size.
#include "trireme/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/ir/scope.h"
#include "trireme/models/network.h"
#include "trireme/ops/table.h"
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

// BertForMaskedLM of bert-base-uncased and bert-large-uncased.
TEST(Bert, CountsAreThePublishedOnes) {
  ModelOptions model = language("bert", 12, 12, 768, 30522);
  model.seq = 512;
  EXPECT_EQ(count(states_of(model, {16})), 109'514'298);
  model.layers = 24;
  model.heads = 16;
  model.hidden = 1024;
  EXPECT_EQ(count(states_of(model, {16})), 335'174'458);
}

TEST(Bert, HasHuggingFacesNamesAndShapes) {
  const Shapes shapes = states_of(language("bert", 2, 4, 8, 30), {16});
  EXPECT_EQ(shapes.size(), 5u + 2 * 16 + 5);
  const std::string name = "bert.encoder.layer.1.";
  for (const auto& [key, shape] : Shapes{{"bert.embeddings.word_embeddings.weight", {30, 8}},
                                         {"bert.embeddings.position_embeddings.weight", {1024, 8}},
                                         {"bert.embeddings.token_type_embeddings.weight", {2, 8}},
                                         {"bert.embeddings.LayerNorm.bias", {8}},
                                         {name + "attention.self.query.weight", {8, 8}},
                                         {name + "attention.self.value.bias", {8}},
                                         {name + "attention.output.dense.weight", {8, 8}},
                                         {name + "attention.output.LayerNorm.weight", {8}},
                                         {name + "intermediate.dense.weight", {32, 8}},
                                         {name + "output.dense.weight", {8, 32}},
                                         {name + "output.LayerNorm.bias", {8}},
                                         {"cls.predictions.transform.dense.weight", {8, 8}},
                                         {"cls.predictions.transform.LayerNorm.weight", {8}},
                                         {"cls.predictions.bias", {30}}}) {
    ASSERT_TRUE(shapes.contains(key)) << key;
    EXPECT_EQ(shapes.at(key), shape) << key;
  }
}

// Vaswani et al.'s base model with one table for both languages: 18,944,000 in the table, six layers of
// 3,152,384 and six of 4,204,032.
TEST(Seq2seq, IsTheBaseModel) {
  const ModelOptions model = language("seq2seq", 6, 8, 512, 37000);
  EXPECT_EQ(count(states_of(model, {20, 16})), 63'082'496);
}

TEST(Seq2seq, HasMariansNamesAndShapes) {
  ModelOptions model = language("seq2seq", 2, 4, 8, 30);
  model.feed_forward = 20;
  const Shapes shapes = states_of(model, {20, 16});
  EXPECT_EQ(shapes.size(), 1u + 2 * 16 + 2 * 26);
  for (const auto& [key, shape] : Shapes{{"model.shared.weight", {30, 8}},
                                         {"model.encoder.layers.1.self_attn.q_proj.weight", {8, 8}},
                                         {"model.encoder.layers.1.self_attn_layer_norm.bias", {8}},
                                         {"model.encoder.layers.0.fc1.weight", {20, 8}},
                                         {"model.decoder.layers.0.encoder_attn.out_proj.bias", {8}},
                                         {"model.decoder.layers.1.encoder_attn_layer_norm.weight", {8}},
                                         {"model.decoder.layers.1.fc2.weight", {8, 20}},
                                         {"model.decoder.layers.1.final_layer_norm.weight", {8}}}) {
    ASSERT_TRUE(shapes.contains(key)) << key;
    EXPECT_EQ(shapes.at(key), shape) << key;
  }
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

// The published one of Penn Treebank: two layers of 1500, 10,000 words.
TEST(Lstm, ATiedHeadHasABiasOfItsOwn) {
  ModelOptions model = language("lstm", 2, 1, 1500, 10000);
  model.tie_embeddings = true;
  const Shapes shapes = states_of(model, {4});
  EXPECT_EQ(count(shapes), 51'034'000);
  EXPECT_FALSE(shapes.contains("head.weight"));
  EXPECT_EQ(shapes.at("head.bias"), (Shape{10000}));
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
  EXPECT_EQ(count(states_of(vision("resnet", 34, 1000), {3, 224, 224})), 21'797'672);
  EXPECT_EQ(count(states_of(vision("resnet", 50, 1000), {3, 224, 224})), 25'557'032);
  EXPECT_EQ(count(states_of(vision("resnet", 101, 1000), {3, 224, 224})), 44'549'160);
}

TEST(ResNet, ThreeByThreeStemIsForSmallImages) {
  ModelOptions model = vision("resnet", 18, 10);
  model.stem = "3x3";
  const Shapes shapes = states_of(model, {3, 32, 32});
  EXPECT_EQ(count(shapes), 11'173'962);
  EXPECT_EQ(shapes.at("conv1.weight"), (Shape{64, 3, 3, 3}));
  // Eight times as many pixels reach the last stage as with the stem for large images.
  const Graph graph = forward_graph(model, {2, {3, 32, 32}}, DType::f32);
  EXPECT_TRUE(std::ranges::any_of(graph.values, [](const Value& value) {
    return value.name.starts_with("layer4.1/conv2/conv2d") && value.type.shape == Shape{2, 512, 4, 4};
  }));
}

TEST(ResNet, WiderBottlenecksAreTorchvisionsWideResNets) {
  ModelOptions model = vision("resnet", 50, 1000);
  model.width = 2;
  EXPECT_EQ(count(states_of(model, {3, 224, 224})), 68'883'240);
  model.layers = 101;
  EXPECT_EQ(count(states_of(model, {3, 224, 224})), 126'886'696);
}

TEST(ResNet, SettingsThatAreForOtherDepthsAreRefused) {
  ModelOptions wide = vision("resnet", 18, 10), stem = vision("resnet", 20, 10);
  wide.width = 2;
  stem.stem = "7x7";
  EXPECT_THROW(states_of(wide, {3, 32, 32}), Error);
  EXPECT_THROW(states_of(stem, {3, 32, 32}), Error);
}

ModelOptions wide(int64_t layers, int64_t channels, int64_t width, int64_t classes) {
  ModelOptions model = vision("wide_resnet", layers, classes);
  model.channels = channels;
  model.width = width;
  return model;
}

TEST(WideResNet, CountsAreThePublishedOnes) {
  // 36.5 and 11.0 million, and 8.9 in the paper's table of CIFAR-10.
  EXPECT_EQ(count(states_of(wide(28, 0, 10, 10), {3, 32, 32})), 36'479'194);
  EXPECT_EQ(count(states_of(wide(16, 0, 8, 10), {3, 32, 32})), 10'961'370);
  EXPECT_EQ(count(states_of(wide(40, 0, 4, 10), {3, 32, 32})), 8'949'210);
}

// 250M, 500M, 1B, 2B, 4B, 6.8B and 13B, as Alpa's authors call them.
TEST(WideResNet, LargeOnesAreThoseThatAlpaWasMeasuredWith) {
  const auto parameters = [](int64_t layers, int64_t channels, int64_t width) {
    return count(states_of(wide(layers, channels, width, 1024), {3, 224, 224}));
  };
  EXPECT_EQ(parameters(50, 160, 2), 254'123'104);
  EXPECT_EQ(parameters(50, 224, 2), 495'046'176);
  EXPECT_EQ(parameters(50, 320, 2), 1'005'653'184);
  EXPECT_EQ(parameters(50, 448, 2), 1'965'011'008);
  EXPECT_EQ(parameters(50, 640, 2), 4'000'937'344);
  EXPECT_EQ(parameters(50, 320, 16), 6'727'679'424);
  EXPECT_EQ(parameters(101, 320, 16), 12'633'386'944);
}

TEST(WideResNet, OtherDepthsAreRefused) {
  EXPECT_THROW(states_of(wide(18, 0, 2, 10), {3, 32, 32}), Error);
  EXPECT_THROW(states_of(wide(20, 0, 2, 10), {3, 32, 32}), Error);
}

TEST(AlexNet, CountAndNamesAreTorchvisions) {
  const Shapes shapes = states_of(vision("alexnet", 1, 1000), {3, 224, 224});
  EXPECT_EQ(count(shapes), 61'100'840);
  EXPECT_EQ(shapes.size(), 16u);
  EXPECT_EQ(shapes.at("features.0.weight"), (Shape{64, 3, 11, 11}));
  EXPECT_EQ(shapes.at("features.10.weight"), (Shape{256, 256, 3, 3}));
  EXPECT_EQ(shapes.at("classifier.1.weight"), (Shape{4096, 9216}));
  EXPECT_EQ(shapes.at("classifier.6.bias"), (Shape{1000}));
}

// "One weird trick": convolutions are 90 to 95 per cent of the computation and about 5 of the parameters, the
// fully connected layers the rest.
TEST(AlexNet, ConvolutionsComputeAndFullyConnectedLayersRemember) {
  const ModelOptions model = vision("alexnet", 1, 1000);
  TrainOptions train;
  const Graph graph =
      step_graphs(model, train, {}, {128, {3, 224, 224}}, schedule_of(train)).segments[0].graph;
  double convolutions = 0, all = 0;
  for (const Node& node : graph.nodes) {
    const double flops = cost_of(graph, node).flops;
    all += flops;
    if (node.op->name.starts_with("conv2d")) convolutions += flops;
  }
  EXPECT_GT(convolutions / all, 0.90);
  EXPECT_LT(convolutions / all, 0.95);

  const Shapes shapes = states_of(model, {3, 224, 224});
  int64_t in_convolutions = 0;
  for (const auto& [name, shape] : shapes)
    in_convolutions += name.starts_with("features.") ? shape.elements() : 0;
  EXPECT_EQ(in_convolutions, 2'469'696);
  EXPECT_LT(static_cast<double>(in_convolutions) / static_cast<double>(count(shapes)), 0.05);
  EXPECT_GT(static_cast<double>(in_convolutions) / static_cast<double>(count(shapes)), 0.03);
}

TEST(AlexNet, SmallImagesHaveSmallConvolutions) {
  EXPECT_EQ(states_of(vision("alexnet", 1, 10), {3, 32, 32}).at("classifier.1.weight"),
            (Shape{4096, 256 * 16}));
  EXPECT_THROW(states_of(vision("alexnet", 1, 10), {3, 7, 32}), Error);
}

TEST(Vgg, CountsAreThePublishedOnes) {
  EXPECT_EQ(count(states_of(vision("vgg", 11, 1000), {3, 224, 224})), 132'863'336);
  EXPECT_EQ(count(states_of(vision("vgg", 13, 1000), {3, 224, 224})), 133'047'848);
  EXPECT_EQ(count(states_of(vision("vgg", 16, 1000), {3, 224, 224})), 138'357'544);
  EXPECT_EQ(count(states_of(vision("vgg", 19, 1000), {3, 224, 224})), 143'667'240);
}

TEST(Vgg, HasTorchvisionsNames) {
  const Shapes shapes = states_of(vision("vgg", 16, 1000), {3, 224, 224});
  EXPECT_EQ(shapes.size(), 32u);
  EXPECT_EQ(shapes.at("features.28.weight"), (Shape{512, 512, 3, 3}));
  EXPECT_EQ(shapes.at("classifier.0.weight"), (Shape{4096, 25088}));
  EXPECT_EQ(shapes.at("classifier.3.bias"), (Shape{4096}));
}

TEST(Vgg, OtherDepthsAndSmallerImagesAreRefused) {
  EXPECT_THROW(states_of(vision("vgg", 12, 10), {3, 32, 32}), Error);
  EXPECT_THROW(states_of(vision("vgg", 11, 10), {3, 31, 32}), Error);
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

ModelOptions swin(int64_t layers, int64_t hidden, int64_t heads) {
  ModelOptions model = vision("swin", layers, 1000);
  model.hidden = hidden;
  model.heads = heads;
  return model;
}

// Swin-T, Swin-S and Swin-B.
TEST(Swin, CountsAreThePublishedOnes) {
  EXPECT_EQ(count(states_of(swin(12, 96, 3), {3, 224, 224})), 28'288'354);
  EXPECT_EQ(count(states_of(swin(24, 96, 3), {3, 224, 224})), 49'606'258);
  EXPECT_EQ(count(states_of(swin(24, 128, 4), {3, 224, 224})), 87'768'224);
}

TEST(Swin, HasTheNamesOfItsAuthors) {
  const Shapes shapes = states_of(swin(12, 96, 3), {3, 224, 224});
  EXPECT_EQ(shapes.at("patch_embed.proj.weight"), (Shape{96, 3, 4, 4}));
  EXPECT_EQ(shapes.at("layers.2.blocks.5.attn.relative_position_bias_table"), (Shape{169, 12}));
  EXPECT_EQ(shapes.at("layers.0.blocks.1.attn.qkv.weight"), (Shape{288, 96}));
  EXPECT_EQ(shapes.at("layers.0.downsample.reduction.weight"), (Shape{192, 384}));
  EXPECT_EQ(shapes.at("layers.3.blocks.1.mlp.fc2.bias"), (Shape{768}));
  EXPECT_EQ(shapes.at("head.weight"), (Shape{1000, 768}));
}

TEST(Swin, ImagesThatDoNotDivideIntoWindowsAreRefused) {
  EXPECT_THROW(states_of(swin(12, 96, 3), {3, 226, 224}), Error);
  EXPECT_THROW(states_of(swin(12, 96, 3), {3, 32, 32}), Error);
  EXPECT_THROW(states_of(swin(6, 96, 3), {3, 224, 224}), Error);
  ModelOptions small = swin(8, 32, 2);
  small.patch = 2;
  small.window = 4;
  EXPECT_EQ(states_of(small, {3, 32, 32}).at("layers.3.blocks.0.attn.relative_position_bias_table"),
            (Shape{9, 16}));  // the last stage has 2×2 patches, and one window of them
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
  has(nodes_of(language("bert", 1, 2, 8, 16), {16}),
      {"bert.embeddings/LayerNorm/layer_norm", "bert.encoder.layer.0/attention/attention",
       "bert.encoder.layer.0/attention/self.query/matmul", "bert.encoder.layer.0/intermediate.dense/matmul",
       "bert.encoder.layer.0/output/dense/matmul", "cls/predictions.transform.dense/matmul"});
  has(nodes_of(language("lstm", 1, 1, 8, 16), {4}),
      {"embedding/embedding", "lstm.l0/matmul", "lstm.l0/t2/tanh", "lstm.l0/t2/grad/tanh_grad",
       "head/matmul"});
  has(nodes_of(vision("mlp", 2, 10), {1, 28, 28}), {"flatten/reshape", "layers.0/matmul", "layers.0/relu"});
  has(nodes_of(vision("lenet", 0, 10), {1, 28, 28}), {"conv1/conv2d", "conv1/max_pool2d", "fc3/matmul"});
  has(nodes_of(vision("resnet", 20, 10), {3, 32, 32}),
      {"stem/conv1/conv2d", "layer2.0/conv1/conv2d", "layer2.0/bn1/batch_norm", "layer2.0/pad",
       "linear/mean"});
  has(nodes_of(vision("wide_resnet", 10, 10), {3, 32, 32}),
      {"conv1/conv2d", "block2.layer.0/bn1/batch_norm", "block2.layer.0/convShortcut/conv2d", "fc/mean"});
  has(nodes_of(vision("alexnet", 1, 10), {3, 32, 32}),
      {"features.0/conv2d", "features.0/max_pool2d", "features.6/relu", "classifier.4/matmul"});
  has(nodes_of(vision("vgg", 11, 10), {3, 32, 32}), {"features.18/max_pool2d", "classifier.3/matmul"});
  has(nodes_of(swin(8, 6, 3), {3, 224, 224}),
      {"patch_embed/matmul", "layers.0.blocks.1/attn/softmax", "layers.0.blocks.1/select",
       "layers.0.blocks.1/mlp/gelu", "layers.0.downsample/reduction/matmul", "head/mean"});
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

// A user's own record may call it with anything.
TEST(Network, RowsForLogitsAreOneOfEachText) {
  Builder b(ops(), "window");
  Network net(b, Mode::kWindow, 0);
  EXPECT_EQ(net.shape(net.rows_for_logits(b.input("two", {DType::f32, {2, 8, 4}}))), (Shape{2, 1, 4}));
  const ValueId flat = b.input("flat", {DType::f32, {8, 4}});
  EXPECT_THAT([&] { net.rows_for_logits(flat); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("expected features of tokens")));
}

}  // namespace
}  // namespace trireme
