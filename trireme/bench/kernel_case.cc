// The cases; see kernel_case.h.
#include "trireme/bench/kernel_case.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "trireme/base/error.h"
#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace {

using Reference = decltype(OpCase::reference);

Reference reference_of(const std::string& op) {
  static const std::map<std::string, Reference> references = [] {
    std::map<std::string, Reference> result;
    for (const OpCase& one : all_cases()) result.emplace(one.op, one.reference);
    return result;
  }();
  return references.at(op);
}

KernelCase timed_case(std::string op, std::string shape, std::vector<CaseInput> inputs, Attrs attrs,
                      Results timed = Results::kOwnMemory) {
  const Reference reference = reference_of(op);
  return {{.op = std::move(op),
           .label = std::move(shape),
           .inputs = std::move(inputs),
           .attrs = std::move(attrs),
           .reference = reference,
           .tolerance = 2e-5},
          timed};
}

CaseInput number(double value) {
  return kept_f32({}, value, value);
}

KernelCase matmul(const Shape& a, const Shape& b, int64_t transpose_a, int64_t transpose_b) {
  const auto text = [](const Shape& s, bool transposed) {
    return fmt::format("{}x{}{}", s[0], s[1], transposed ? "ᵀ" : "");
  };
  return timed_case("matmul", text(a, transpose_a) + " · " + text(b, transpose_b), {{a}, {b}},
                    {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

// Forward, gradient of the input (second operand transposed), gradient of the weight (first operand
// transposed).
std::vector<KernelCase> matmul_kernel_cases(const ModelSizes& sizes) {
  const int64_t hidden = sizes.hidden, inner = sizes.inner();
  struct Layer {
    int64_t in, out;
  };
  std::vector<KernelCase> cases;
  for (const Layer& layer :
       {Layer{hidden, 3 * hidden}, Layer{hidden, hidden}, Layer{hidden, inner}, Layer{inner, hidden}}) {
    cases.push_back(matmul({sizes.tokens, layer.in}, {layer.in, layer.out}, 0, 0));
    cases.push_back(matmul({sizes.tokens, layer.out}, {layer.in, layer.out}, 0, 1));
    cases.push_back(matmul({sizes.tokens, layer.in}, {sizes.tokens, layer.out}, 1, 0));
  }
  // The head shares its weight with the embedding, which is stored [vocab, hidden].
  const int64_t rows = sizes.predicted, vocab = sizes.vocab;
  cases.push_back(matmul({rows, hidden}, {vocab, hidden}, 0, 1));
  cases.push_back(matmul({rows, vocab}, {vocab, hidden}, 0, 0));
  cases.push_back(matmul({rows, vocab}, {rows, hidden}, 1, 0));
  return cases;
}

std::vector<KernelCase> exchange_kernel_cases(const ModelSizes& sizes) {
  constexpr int64_t kOneOf = 1000;
  if (sizes.gradient == 0) return {};
  return {timed_case("top_k", fmt::format("1/{} of {}", kOneOf, sizes.gradient), {kept_f32({sizes.gradient})},
                     {{"k", sizes.gradient / kOneOf}}, Results::kOverInputs)};
}

// Of rows that have from half to all of the keys.
std::vector<KernelCase> padded_attention_kernel_cases(const ModelSizes& sizes) {
  if (sizes.padded == 0) return {};
  constexpr int64_t kWidth = 64;
  const int64_t tokens = sizes.padded, batch = sizes.tokens / tokens, heads = sizes.hidden / kWidth;
  const CaseInput q{{batch, tokens, heads, 1, kWidth}}, k{{batch, tokens, heads, kWidth}};
  const double sum = std::log(0.75 * static_cast<double>(tokens));
  const CaseInput lse = kept_f32({batch, heads, 1, tokens}, sum - 0.5, sum + 0.5);
  const CaseInput lengths = ids({batch}, static_cast<double>(tokens) / 2, static_cast<double>(tokens + 1));
  const Attrs attrs{{"scale", 1 / std::sqrt(static_cast<double>(kWidth))}};
  const std::string shape = fmt::format("B{} T{} H{} d{}", batch, tokens, heads, kWidth);
  return {timed_case("attention_padded", shape, {q, k, k, lengths}, attrs),
          timed_case("attention_padded_grad", shape, {q, q, k, k, q, lse, lengths}, attrs)};
}

}  // namespace

std::vector<KernelCase> attention_kernel_cases(const ModelSizes& sizes) {
  std::vector<KernelCase> cases;
  for (const int64_t tokens : {256, 1024}) {
    const int64_t batch = sizes.tokens / tokens, width = 64, heads = sizes.hidden / width;
    const CaseInput q{{batch, tokens, heads, 1, width}}, k{{batch, tokens, heads, width}};
    const double sum = std::log(static_cast<double>(tokens) / 2);  // of scores near zero, over half the keys
    const CaseInput lse = kept_f32({batch, heads, 1, tokens}, sum - 0.5, sum + 0.5);
    const Attrs attrs{{"causal", int64_t{1}}, {"scale", 1 / std::sqrt(static_cast<double>(width))}};
    const std::string shape = fmt::format("B{} T{} H{} d{}", batch, tokens, heads, width);
    cases.push_back(timed_case("attention", shape, {q, k, k}, attrs));
    cases.push_back(timed_case("attention_grad", shape, {q, q, k, k, q, lse}, attrs));
  }
  return cases;
}

std::vector<KernelCase> row_kernel_cases(const ModelSizes& sizes) {
  const CaseInput x{{sizes.tokens, sizes.hidden}}, row{{sizes.hidden}}, inner{{sizes.tokens, sizes.inner()}},
      logits{{sizes.predicted, sizes.vocab}};
  const CaseInput mean = kept_f32({sizes.tokens}), rstd = kept_f32({sizes.tokens}, 0.5, 2);
  const CaseInput targets = ids({sizes.predicted}, 0, static_cast<double>(sizes.vocab));
  const double sum = std::log(static_cast<double>(sizes.vocab));
  const CaseInput lse = kept_f32({sizes.predicted}, sum - 0.5, sum + 0.5);
  const CaseInput w = kept_f32({sizes.inner(), sizes.hidden}), g{{sizes.inner(), sizes.hidden}},
                  squares = kept_f32({sizes.inner(), sizes.hidden}, 0.01, 1);
  const std::string hidden = fmt::format("{}x{}", sizes.tokens, sizes.hidden),
                    vocab = fmt::format("{}x{}", sizes.predicted, sizes.vocab);
  return {
      timed_case("layer_norm", hidden, {x, row, row}, {{"eps", 1e-5}}),
      timed_case("layer_norm_grad", hidden, {x, x, row, mean, rstd}, {}),
      timed_case("gelu", fmt::format("{}x{}", sizes.tokens, sizes.inner()), {inner}, {}),
      timed_case("softmax", vocab, {logits}, {}),
      timed_case("cross_entropy", vocab, {logits, targets}, {}),
      timed_case("cross_entropy_grad", vocab, {number(1), logits, targets, lse}, {}),
      timed_case("adam", fmt::format("{}x{}", sizes.inner(), sizes.hidden),
                 {w, g, w, squares, number(1e-3), number(0.5), number(10)},
                 {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
                 Results::kOverInputs),
  };
}

std::vector<KernelCase> conv_kernel_cases(const ModelSizes& sizes) {
  constexpr int64_t kKernel = 3;
  struct Layer {
    int64_t channels, filters, extent, stride;
  };
  std::vector<KernelCase> cases;
  for (const Layer& layer : {Layer{3, 16, 32, 1}, Layer{16, 16, 32, 1}, Layer{16, 32, 32, 2},
                             Layer{32, 32, 16, 1}, Layer{32, 64, 16, 2}, Layer{64, 64, 8, 1}}) {
    const int64_t half = layer.extent / layer.stride;
    const CaseInput x{{sizes.images, layer.channels, layer.extent, layer.extent}},
        w{{layer.filters, layer.channels, kKernel, kKernel}}, y{{sizes.images, layer.filters, half, half}};
    const auto pair = [](int64_t value) { return std::vector<int64_t>{value, value}; };
    const Attrs attrs{{"stride", pair(layer.stride)}, {"padding", pair(1)}, {"dilation", pair(1)}};
    Attrs input_attrs = attrs, weight_attrs = attrs;
    input_attrs.set("size", pair(layer.extent));
    weight_attrs.set("kernel", pair(kKernel));
    const std::string shape =
        fmt::format("{}x{}x{}x{} to {}, 3x3{}", sizes.images, layer.channels, layer.extent, layer.extent,
                    layer.filters, layer.stride == 2 ? ", stride 2" : "");
    cases.push_back(timed_case("conv2d", shape, {x, w}, attrs));
    // The first layer's input is the data, which nobody asks a gradient of.
    if (layer.channels != 3) cases.push_back(timed_case("conv2d_grad_input", shape, {y, w}, input_attrs));
    cases.push_back(timed_case("conv2d_grad_weight", shape, {y, x}, weight_attrs));
  }
  return cases;
}

std::vector<KernelCase> all_kernel_cases(const ModelSizes& sizes) {
  std::vector<KernelCase> all;
  for (auto* cases : {matmul_kernel_cases, attention_kernel_cases, padded_attention_kernel_cases,
                      row_kernel_cases, conv_kernel_cases, exchange_kernel_cases}) {
    for (KernelCase& test : cases(sizes)) all.push_back(std::move(test));
  }
  return all;
}

}  // namespace trireme::bench
