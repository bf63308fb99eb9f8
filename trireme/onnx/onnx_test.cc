// What the reader refuses, what is folded, and what nodes become, on small files written here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"
#include "trireme/onnx/import.h"
#include "trireme/onnx/wire_writer.h"
#include "trireme/onnx/write.h"
#include "trireme/ops/table.h"

namespace trireme::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WireWriter tensor(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  WireWriter message;
  for (const int64_t dim : dims) message.integer(1, dim);
  message.integer(2, 1).bytes(8, name);
  message.bytes(9, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  return message;
}
WireWriter integer_tensor(std::string_view name, const std::vector<int64_t>& values) {
  WireWriter message;
  message.integer(1, static_cast<int64_t>(values.size())).integer(2, 7).bytes(8, name);
  for (const int64_t value : values) message.integer(7, value);
  return message;
}
WireWriter input(std::string_view name, const std::vector<int64_t>& dims) {
  WireWriter shape;
  for (const int64_t dim : dims) shape.message(1, WireWriter().integer(1, dim));
  const WireWriter type = WireWriter().message(1, WireWriter().integer(1, 1).message(2, shape));
  return WireWriter().bytes(1, name).message(2, type);
}
WireWriter node(std::string_view op, const std::vector<std::string>& inputs, std::string_view output,
                const std::vector<std::pair<std::string, int64_t>>& attributes = {}) {
  WireWriter message;
  for (const std::string& name : inputs) message.bytes(1, name);
  message.bytes(2, output).bytes(3, fmt::format("/block/{}", op)).bytes(4, op);
  for (const auto& [name, value] : attributes)
    message.message(5, WireWriter().bytes(1, name).integer(3, value).integer(20, 2));
  return message;
}
std::string model(const WireWriter& graph, int64_t opset = 17) {
  return WireWriter().integer(1, 8).message(7, graph).message(8, WireWriter().integer(2, opset)).text();
}
File parse(const std::string& bytes) {
  return parse_model(std::make_shared<std::vector<uint8_t>>(bytes.begin(), bytes.end()), "test.onnx");
}

// Imports for an input x [2, 3]; the ops that were made, and the output y.
struct Made {
  std::vector<std::string> ops;
  Value y;
  std::vector<std::string> parameters;
  std::string first_result;
};
Made import(const File& file, const Shape& x = {2, 3}) {
  Made made;
  Builder builder(ops(), "test");
  const Surroundings around{.parameter =
                                [&](const StoredTensor& stored) {
                                  made.parameters.push_back(stored.name);
                                  return builder.state(stored.name, {DType::f32, stored.shape});
                                },
                            .constant =
                                [&](const std::string& name, const Tensor& constant) {
                                  return builder.state(name, {DType::f32, constant.shape});
                                },
                            .batch_norm = nullptr,
                            .dropout = nullptr};
  Emitter emitter(builder, around);
  const Value given = emitter.computed(builder.input("x", {DType::f32, x}));
  made.y = import_graph(file, emitter, {{"x", given}}, {"y"}).at("y");
  for (const trireme::Node& one : builder.graph().nodes) made.ops.emplace_back(one.op->name);
  if (!builder.graph().nodes.empty())
    made.first_result = builder.graph().values[builder.graph().nodes[0].outputs[0]].name;
  return made;
}

TEST(Onnx, NodesBecomeOpsInTheScopesOfTheirNames) {
  const WireWriter graph = WireWriter()
                               .message(1, node("Gemm", {"x", "w", "b"}, "h", {{"transB", 1}}))
                               .message(1, node("Relu", {"h"}, "y"))
                               .message(5, tensor("w", {4, 3}, std::vector<float>(12, 1)))
                               .message(5, tensor("b", {4}, {1, 2, 3, 4}))
                               .message(11, input("x", {2, 3}));
  const Made made = import(parse(model(graph)));
  EXPECT_THAT(made.ops, ElementsAre("matmul", "add", "relu"));
  EXPECT_THAT(made.parameters, ElementsAre("w", "b"));
  EXPECT_EQ(made.first_result, "block/matmul");
  EXPECT_EQ(made.y.shape, (Shape{2, 4}));
}

TEST(Onnx, ShapesAreFolded) {
  const WireWriter graph = WireWriter()
                               .message(1, node("Shape", {"x"}, "s"))
                               .message(1, node("Gather", {"s", "last"}, "columns"))
                               .message(1, node("Concat", {"columns", "open"}, "to", {{"axis", 0}}))
                               .message(1, node("Reshape", {"x", "to"}, "y"))
                               .message(5, integer_tensor("last", {-1}))
                               .message(5, integer_tensor("open", {-1}));
  const Made made = import(parse(model(graph)));
  EXPECT_THAT(made.ops, ElementsAre("reshape"));
  EXPECT_EQ(made.y.shape, (Shape{3, 2}));
}

TEST(Onnx, SoftmaxBeforeOpset13TakesEverythingFromTheAxisOn) {
  const WireWriter graph = WireWriter().message(1, node("Softmax", {"x"}, "y", {{"axis", 0}}));
  EXPECT_THAT(import(parse(model(graph, 11))).ops, ElementsAre("reshape", "softmax", "reshape"));
  EXPECT_THAT(import(parse(model(graph, 13))).ops, ElementsAre("transpose", "softmax", "transpose"));
}

TEST(Onnx, BothOperandsAreBroadcast) {
  const WireWriter graph = WireWriter()
                               .message(1, node("Sub", {"column", "x"}, "y"))
                               .message(5, tensor("column", {4, 2, 1}, std::vector<float>(8, 1)));
  EXPECT_EQ(import(parse(model(graph))).y.shape, (Shape{4, 2, 3}));
}

TEST(Onnx, RefusalsNameFileNodeAndOp) {
  const auto refused = [](const WireWriter& graph, int64_t opset = 17) {
    return error_of([&] { import(parse(model(graph, opset))); });
  };
  EXPECT_THAT(refused(WireWriter().message(1, node("Einsum", {"x"}, "y"))),
              HasSubstr("test.onnx: node '/block/Einsum' (Einsum): there is no such op"));
  EXPECT_THAT(refused(WireWriter().message(1, node("Floor", {"x"}, "y"))),
              HasSubstr("(Floor): there is no op that computes it"));
  EXPECT_THAT(refused(WireWriter().message(1, node("Relu", {"z"}, "y"))),
              HasSubstr("'z' is used before any node makes it"));
  EXPECT_THAT(refused(WireWriter().message(1, node("Relu", {"x"}, "y")), 99),
              HasSubstr("opset 99; 1 to 23 are read"));
  EXPECT_THAT(refused(WireWriter().message(1, node("Relu", {"x"}, "h"))),
              HasSubstr("no node makes its output 'y'"));
  EXPECT_THAT(refused(WireWriter().message(1, node("Reshape", {"x", "x"}, "y"))),
              HasSubstr("its shape must be known when the graph is imported"));
}

TEST(Onnx, DamagedFilesAreRefused) {
  const std::string whole = model(WireWriter().message(5, tensor("w", {2}, {1, 2})));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string problem = error_of([&] { parse(whole.substr(0, size)); });
    EXPECT_THAT(problem, HasSubstr("test.onnx: ")) << size;
  }
  const File file = parse(model(WireWriter().message(5, tensor("w", {3}, {1, 2}))));
  EXPECT_THAT(error_of([&] { file.initializers.at("w").decode(); }),
              HasSubstr("tensor 'w' [3] of float32 has 8 bytes; 12 expected"));
  EXPECT_THAT(
      error_of([&] { parse(model(WireWriter().message(5, WireWriter().integer(1, -1).bytes(8, "w")))); }),
      HasSubstr("tensor 'w' has a dim of -1"));
  EXPECT_THAT(error_of([&] { parse("no model at all"); }), HasSubstr("this is no ONNX file"));
}

TEST(Onnx, ExternalDataStaysInsideOfTheFolder) {
  const TempFolder folder;
  folder.write("secret", "12345678");
  folder.write("model/weights", std::string(16, '\0'));
  const auto with = [&](const std::string& location, const std::string& offset, const std::string& length) {
    const auto entry = [](const std::string& key, const std::string& value) {
      return WireWriter().bytes(1, key).bytes(2, value);
    };
    const WireWriter weight = WireWriter()
                                  .integer(1, 2)
                                  .integer(2, 1)
                                  .bytes(8, "w")
                                  .message(13, entry("location", location))
                                  .message(13, entry("offset", offset))
                                  .message(13, entry("length", length))
                                  .integer(14, 1);
    const std::string path = folder.write("model/model.onnx", model(WireWriter().message(5, weight)));
    return error_of([&] { read_file(path)->initializers.at("w").decode(); });
  };
  EXPECT_EQ(with("weights", "8", "8"), "no error");
  EXPECT_THAT(with("../secret", "0", "8"), HasSubstr("which is not inside of the model's folder"));
  EXPECT_THAT(with(folder.path() / "secret", "0", "8"),
              HasSubstr("which is not inside of the model's folder"));
  EXPECT_THAT(with("weights", "12", "8"), HasSubstr("is 8 bytes from 12 on of"));
  EXPECT_THAT(with("weights", "0", "99999999999999999999"), HasSubstr("a number of bytes expected"));
}

TEST(Onnx, FilesAreWrittenWithOtherValuesForInference) {
  const WireWriter norm = WireWriter()
                              .bytes(1, "x")
                              .bytes(1, "gain")
                              .bytes(1, "gain")
                              .bytes(1, "gain")
                              .bytes(1, "gain")
                              .bytes(2, "y")
                              .bytes(2, "new_mean")
                              .bytes(2, "new_variance")
                              .bytes(4, "BatchNormalization")
                              .message(5, WireWriter().bytes(1, "training_mode").integer(3, 1))
                              .message(5, WireWriter().bytes(1, "epsilon").real(2, 0.5F));
  const File file = parse(model(WireWriter()
                                    .message(1, norm)
                                    .message(5, tensor("gain", {3}, {1, 2, 3}))
                                    .message(5, integer_tensor("count", {7}))
                                    .message(11, input("x", {2, 3}))));
  const std::string bytes = with_values(file,
                                        [](const StoredTensor&) {
                                          return std::vector<float>{4, 5, 6};
                                        },
                                        {{"from", "a run"}});
  EXPECT_THAT(bytes, HasSubstr("a run"));
  const File written = parse(bytes);
  EXPECT_THAT(written.initializers.at("gain").decode().reals, ElementsAre(4, 5, 6));
  EXPECT_THAT(written.initializers.at("count").decode().integers, ElementsAre(7));
  ASSERT_EQ(written.nodes.size(), 1);
  EXPECT_THAT(written.nodes[0].outputs, ElementsAre("y"));
  ASSERT_EQ(written.nodes[0].attributes.size(), 1);
  EXPECT_EQ(written.nodes[0].attributes[0].real, 0.5F);
  EXPECT_EQ(written.inputs[0].name, "x");
}

}  // namespace
}  // namespace trireme::onnx
