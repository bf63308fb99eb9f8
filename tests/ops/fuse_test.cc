// Fusing changes no bits: each pattern of passes/fuse.h and device_fuse.h, run node by node as it was written
// and as it was fused, gives the same results in every format on the CPU. In 16 bits that means that a fused
// kernel rounds where the nodes it stands for would have stored something.
#include "trireme/passes/fuse.h"

#include <gtest/gtest.h>

#include "tests/ops/case_runner.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/device_fuse.h"

namespace trireme::testing {
namespace {

struct Pattern {
  const char* label;
  const char* inputs;  // "name[dims] …", in the format, or "name:dtype[dims]"
  const char* nodes;   // one on each line, where F is the format
  const char* fused;   // the op that all of them become, with its epilogue if it has one
};

const Pattern kPatterns[] = {
    {"bias", "x[5,7,33] w[33,29] b[29]",
     "%m: F[5,7,29] = matmul(%x, %w)\n%y: F[5,7,29] = add(%m, %b)\noutput y = %y\n", "matmul bias"},
    {"bias_one_row", "x[1,70] w[70,50] b[50]",
     "%m: F[1,50] = matmul(%x, %w)\n%y: F[1,50] = add(%m, %b)\noutput y = %y\n", "matmul bias"},
    {"bias_transposed_b", "x[9,64] w[31,64] b[31]",
     "%m: F[9,31] = matmul(%x, %w) {transpose_b=1}\n%y: F[9,31] = add(%m, %b)\noutput y = %y\n",
     "matmul bias"},
    // Several blocks of k; and a sum so long that it is cut into chunks.
    {"bias_long_sum", "x[3,900] w[900,40] b[40]",
     "%m: F[3,40] = matmul(%x, %w)\n%y: F[3,40] = add(%m, %b)\noutput y = %y\n", "matmul bias"},
    {"bias_chunks", "x[2,8300] w[8300,5] b[5]",
     "%m: F[2,5] = matmul(%x, %w)\n%y: F[2,5] = add(%m, %b)\noutput y = %y\n", "matmul bias"},
    {"bias_gelu", "x[13,37] w[37,53] b[53]",
     "%m: F[13,53] = matmul(%x, %w)\n%s: F[13,53] = add(%m, %b)\n%y: F[13,53] = gelu(%s)\n"
     "output y = %y\noutput s = %s\n",
     "matmul bias_gelu"},
    {"residual", "x[6,41] w[41,27] r[6,27]",
     "%m: F[6,27] = matmul(%x, %w)\n%y: F[6,27] = add(%r, %m)\noutput y = %y\n", "matmul residual"},
    {"bias_residual", "x[2,6,41] w[41,27] b[27] r[2,6,27]",
     "%m: F[2,6,27] = matmul(%x, %w)\n%s: F[2,6,27] = add(%m, %b)\n%y: F[2,6,27] = add(%s, %r)\n"
     "output y = %y\n",
     "matmul bias_residual"},
    {"bias_residual_chunks", "x[3,8300] w[8300,6] b[6] r[3,6]",
     "%m: F[3,6] = matmul(%x, %w)\n%s: F[3,6] = add(%m, %b)\n%y: F[3,6] = add(%s, %r)\noutput y = %y\n",
     "matmul bias_residual"},
    {"add_layer_norm", "x[4,9,67] r[4,9,67] g[67] b[67]",
     "%s: F[4,9,67] = add(%x, %r)\n"
     "%y: F[4,9,67], %m: f32[4,9], %k: f32[4,9] = layer_norm(%s, %g, %b) {eps=1e-05}\n"
     "output y = %y\noutput s = %s\noutput m = %m\noutput k = %k\n",
     "add_layer_norm"},
    {"add_rms_norm", "x[31,45] r[31,45] g[45]",
     "%s: F[31,45] = add(%x, %r)\n%y: F[31,45], %k: f32[31] = rms_norm(%s, %g) {eps=1e-05}\n"
     "output y = %y\noutput s = %s\noutput k = %k\n",
     "add_rms_norm"},
    {"total_squares", "x[31,45] y[7] z[2,3,5000]",
     "%a: f32[] = sum_squares(%x)\n%b: f32[] = sum_squares(%y)\n%c: f32[] = add(%a, %b)\n"
     "%d: f32[] = sum_squares(%z)\n%e: f32[] = add(%c, %d)\noutput e = %e\n",
     "total_squares"},
    {"cross_entropy_with_grad", "x[3,7,211] t:i32[3,7] d:f32[]",
     "%l: f32[], %n: f32[], %e: f32[3,7] = cross_entropy(%x, %t) {ignore_index=2, label_smoothing=0.1}\n"
     "%y: F[3,7,211] = cross_entropy_grad(%d, %x, %t, %e) {ignore_index=2, label_smoothing=0.1}\n"
     "output y = %y\noutput l = %l\noutput n = %n\n",
     "cross_entropy_with_grad"},
    {"layer_norm_grad_add", "d[4,9,67] x[4,9,67] g[67] m:f32[4,9] k:f32[4,9] r[4,9,67]",
     "%a: F[4,9,67], %b: F[67], %c: F[67] = layer_norm_grad(%d, %x, %g, %m, %k)\n"
     "%y: F[4,9,67] = add(%r, %a)\n%t: F[67] = sum(%y) {dims=[0,1]}\n"
     "output y = %y\noutput b = %b\noutput c = %c\noutput t = %t\n",
     "layer_norm_grad_add"},
    {"rms_norm_grad_add", "d[4,9,67] x[4,9,67] g[67] k:f32[4,9] r[4,9,67]",
     "%a: F[4,9,67], %b: F[67] = rms_norm_grad(%d, %x, %g, %k)\n%y: F[4,9,67] = add(%r, %a)\n"
     "output y = %y\noutput b = %b\n",
     "rms_norm_grad_add"},
    {"matmul_gelu_grad", "a[5,7,33] w[29,33] x[5,7,29]",
     "%m: F[5,7,29] = matmul(%a, %w) {transpose_b=1}\n%y: F[5,7,29] = gelu_grad(%m, %x)\noutput y = %y\n",
     "matmul_gelu_grad"},
    {"matmul_to_f32", "a[33,7] w[33,29]",
     "%m: F[7,29] = matmul(%a, %w) {transpose_a=1}\n%y: f32[7,29] = cast(%m) {to=\"f32\"}\noutput y = %y\n",
     "matmul_to_f32"},
    {"matmul_to_f32_add", "a[33,7] w[33,29] r:f32[7,29]",
     "%m: F[7,29] = matmul(%a, %w) {transpose_a=1}\n%c: f32[7,29] = cast(%m) {to=\"f32\"}\n"
     "%y: f32[7,29] = add(%r, %c)\noutput y = %y\n",
     "matmul_to_f32 residual"},
    {"batch_norm_relu", "x[2,3,5,8] g[8] b[8] m:f32[8] v:f32[8]",
     "%y: F[2,3,5,8], %a: f32[1,8], %k: f32[1,8], %n: f32[8], %w: f32[8] = batch_norm_nhwc(%x, %g, %b, %m, "
     "%v) {eps=1e-05}\n%z: F[2,3,5,8] = relu(%y)\n"
     "output z = %z\noutput a = %a\noutput k = %k\noutput n = %n\noutput w = %w\n",
     "batch_norm_nhwc relu"},
    {"batch_norm_add_relu", "x[2,3,5,8] g[8] b[8] m:f32[8] v:f32[8] r[2,3,5,8]",
     "%y: F[2,3,5,8], %a: f32[1,8], %k: f32[1,8], %n: f32[8], %w: f32[8] = batch_norm_nhwc(%x, %g, %b, %m, "
     "%v) {eps=1e-05}\n%s: F[2,3,5,8] = add(%r, %y)\n"
     "%z: F[2,3,5,8] = relu(%s)\noutput z = %z\noutput a = %a\noutput k = %k\n",
     "batch_norm_nhwc add_relu"},
    {"add_relu_grad_batch_norm", "p[2,3,5,8] q[2,3,5,8] z[2,3,5,8] x[2,3,5,8] g[8] m:f32[1,8] k:f32[1,8]",
     "%d: F[2,3,5,8] = add(%p, %q)\n%s: F[2,3,5,8] = relu_grad(%d, %z)\n"
     "%y: F[2,3,5,8], %a: F[8], %b: F[8] = batch_norm_nhwc_grad(%s, %x, %g, %m, %k)\n"
     "output y = %y\noutput a = %a\noutput b = %b\n",
     "batch_norm_nhwc_grad add_relu"},
    {"attention_packed", "x[2,9,24]",
     "%q: F[2,9,8], %k: F[2,9,8], %v: F[2,9,8] = split(%x) {dim=2, sizes=[8,8,8]}\n"
     "%a: F[2,9,2,1,4] = reshape(%q) {shape=[2,9,2,1,4]}\n%b: F[2,9,2,4] = reshape(%k) {shape=[2,9,2,4]}\n"
     "%c: F[2,9,2,4] = reshape(%v) {shape=[2,9,2,4]}\n"
     "%o: F[2,9,2,1,4], %l: f32[2,2,1,9] = attention(%a, %b, %c) {causal=1, scale=0.5}\n"
     "output o = %o\noutput l = %l\n",
     "attention_packed"},
    {"dropout_add", "x[7,211] rng:i64[2] r[7,211]",
     "%d: F[7,211] = dropout(%x, %rng) {rate=0.3, stream=5}\n%y: F[7,211] = add(%r, %d)\noutput y = %y\n",
     "dropout_add"},
    {"bias_dropout_add", "x[9,5,77] b[77] rng:i64[2] r[9,5,77]",
     "%s: F[9,5,77] = add(%x, %b)\n%d: F[9,5,77] = dropout(%s, %rng) {rate=0.3, stream=5}\n"
     "%y: F[9,5,77] = add(%r, %d)\noutput y = %y\n",
     "dropout_add"},
    // More than a block of a kernel, and a part of a larger tensor.
    {"bias_dropout_add_part", "x[3,4,1500] b[1500] rng:i64[2] r[3,4,1500]",
     "%s: F[3,4,1500] = add(%x, %b)\n"
     "%d: F[3,4,1500] = dropout(%s, %rng) {offset=1507, rate=0.5, stream=3, whole=[3,9,1510]}\n"
     "%y: F[3,4,1500] = add(%d, %r)\noutput y = %y\n",
     "dropout_add"},
};

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

Graph graph_of(const Pattern& pattern, DType format) {
  std::string text, inputs = pattern.inputs, nodes = pattern.nodes;
  const std::string format_name(name(format));
  for (size_t begin = 0, end; begin < inputs.size(); begin = end + 1) {
    end = std::min(inputs.find(' ', begin), inputs.size());
    const std::string input = inputs.substr(begin, end - begin);
    const size_t bracket = input.find('[');
    const size_t colon = std::min(input.find(':'), bracket);
    const std::string type = colon < bracket ? input.substr(colon + 1, bracket - colon - 1) : format_name;
    text += "input %" + input.substr(0, colon) + ": " + type + input.substr(bracket) + "\n";
  }
  replace_all(nodes, ": F[", ": " + format_name + "[");
  return parse_graph(text + nodes, ops());
}

// Outputs by their order, computed kernel by kernel.
RefTensors run(const Graph& graph, const RefTensors& inputs) {
  RefTensors values(graph.values.size());
  size_t next = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (graph.values[i].kind == Value::Kind::kInput) values[i] = inputs[next++];
  }
  for (const Node& node : graph.nodes) {
    RefTensors operands;
    for (ValueId input : node.inputs) operands.push_back(values[input]);
    const RefTensors results = run_kernel(std::string(node.op->name), node.attrs, operands,
                                          graph.types_of(node.outputs), /*threads=*/2);
    for (size_t i = 0; i < results.size(); ++i) values[node.outputs[i]] = results[i];
  }
  RefTensors outputs;
  for (const Output& output : graph.outputs) outputs.push_back(values[output.value]);
  return outputs;
}

class FusedAgainstUnfused : public ::testing::TestWithParam<Pattern> {};

void expect_same_bits(const Pattern& pattern, DType format) {
  const Graph graph = graph_of(pattern, format);
  const Graph fused =
      fused_for_device(fuse(graph, ops()), ops(), [](const Graph&, const Node&) { return true; });
  ASSERT_EQ(fused.nodes.size(), 1u) << print(fused);
  std::string what(fused.nodes[0].op->name);
  if (fused.nodes[0].attrs.has("epilogue")) what += " " + std::string(fused.nodes[0].attrs.text("epilogue"));
  EXPECT_EQ(what, pattern.fused);

  OpCase drawn{.op = "fuse", .label = pattern.label};
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::kInput) continue;
    const DType dtype = value.type.dtype;
    const bool numbers = is_float(dtype);
    drawn.inputs.push_back({value.type.shape, numbers ? DType::f32 : dtype, numbers ? -2.0 : 0.0,
                            numbers               ? 2.0
                            : dtype == DType::i32 ? 5.0
                                                  : 1e6,
                            dtype == DType::f32 ? CaseInput::Format::kKept : CaseInput::Format::kFollows});
  }
  const RefTensors inputs = random_inputs(drawn, format, /*seed=*/6);
  const RefTensors expected = run(graph, inputs), found = run(fused, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t different = 0;
    for (size_t k = 0; k < found[i].values.size(); ++k) {
      different += found[i].values[k] != expected[i].values[k];
    }
    EXPECT_EQ(different, 0) << "of " << found[i].values.size() << " in output " << graph.outputs[i].name
                            << " in " << format;
  }
}

TEST_P(FusedAgainstUnfused, f32) {
  expect_same_bits(GetParam(), DType::f32);
}
TEST_P(FusedAgainstUnfused, bf16) {
  expect_same_bits(GetParam(), DType::bf16);
}
TEST_P(FusedAgainstUnfused, f16) {
  expect_same_bits(GetParam(), DType::f16);
}

INSTANTIATE_TEST_SUITE_P(Fuse, FusedAgainstUnfused, ::testing::ValuesIn(kPatterns),
                         [](const auto& tested) { return std::string(tested.param.label); });

}  // namespace
}  // namespace trireme::testing
