// Cases of the matmul ops.
#include <string_view>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace matmul_reference {
namespace {

RefTensors matmul_reference(const RefTensors& in, const Attrs& attrs) {
  const RefTensor &a = in[0], &b = in[1];
  const bool transpose_a = attrs.integer("transpose_a", 0), transpose_b = attrs.integer("transpose_b", 0);
  const int rank = a.shape.rank();
  const int64_t m = a.shape[transpose_a ? rank - 1 : rank - 2],
                k = a.shape[transpose_a ? rank - 2 : rank - 1];
  const int64_t n = transpose_b ? b.shape[b.shape.rank() - 2] : b.shape.back();
  const int64_t batch = a.shape.elements(0, rank - 2);
  Shape shape = a.shape.slice(0, rank - 2);
  shape.push_back(m);
  shape.push_back(n);
  RefTensor y = RefTensor::zeros(shape, a.dtype), pre = y;
  const std::string_view epilogue = attrs.text("epilogue", "none");
  for (int64_t i = 0; i < batch * m * n; ++i) {
    const int64_t col = i % n, row = i / n % m, matrix = i / n / m;
    const double* b_data = b.values.data() + (b.shape.rank() == 2 ? 0 : matrix * k * n);
    const double* a_data = a.values.data() + matrix * m * k;
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      sum +=
          a_data[transpose_a ? j * m + row : row * k + j] * b_data[transpose_b ? col * k + j : j * n + col];
    }
    if (epilogue.starts_with("bias")) sum += in[2].values[col];
    if (epilogue == "residual") sum += in[2].values[i];
    if (epilogue == "bias_residual") sum += in[3].values[i];
    pre.values[i] = sum;
    y.values[i] = epilogue == "bias_gelu" ? gelu(sum) : sum;
  }
  if (epilogue == "bias_gelu") return {y, pre};
  return {y};
}

RefTensors matmul_gelu_grad_reference(const RefTensors& in, const Attrs& attrs) {
  RefTensors y = matmul_reference(in, attrs);
  for (size_t i = 0; i < y[0].values.size(); ++i) y[0].values[i] *= gelu_slope(in[2].values[i]);
  return y;
}

enum class SharedB { kNo, kYes };

OpCase matmul_case(std::string label, Shape batch, int64_t m, int64_t n, int64_t k, int transpose_a,
                   int transpose_b, std::string epilogue = "none", SharedB shared = SharedB::kNo) {
  const auto with = [&](int64_t rows, int64_t cols) {
    Shape shape = batch;
    shape.push_back(rows);
    shape.push_back(cols);
    return shape;
  };
  OpCase one;
  one.op = "matmul";
  one.label = std::move(label);
  one.inputs.push_back({transpose_a ? with(k, m) : with(m, k)});
  const Shape b = transpose_b ? with(n, k) : with(k, n);
  one.inputs.push_back({shared == SharedB::kYes ? b.slice(b.rank() - 2, b.rank()) : b});
  if (epilogue.starts_with("bias")) one.inputs.push_back({{n}});
  if (epilogue.ends_with("residual")) one.inputs.push_back({with(m, n)});
  if (transpose_a) one.attrs.set("transpose_a", int64_t{1});
  if (transpose_b) one.attrs.set("transpose_b", int64_t{1});
  if (epilogue != "none") {
    one.attrs.set("epilogue", epilogue);
    one.finite_differences = Differentiable::kNo;  // epilogues come after autodiff and have no gradient
  }
  one.reference = matmul_reference;
  return one;
}

OpCase matmul_gelu_grad_case(const OpCase& product) {
  OpCase one = product;
  one.op = "matmul_gelu_grad";
  RefTensors inputs;
  for (const CaseInput& input : one.inputs) inputs.push_back(RefTensor::zeros(input.shape));
  one.inputs.push_back({matmul_reference(inputs, one.attrs)[0].shape, DType::f32, -3, 3});
  one.finite_differences = Differentiable::kNo;
  one.reference = matmul_gelu_grad_reference;
  return one;
}

RefTensors matmul_to_f32_reference(const RefTensors& in, const Attrs& attrs) {
  RefTensors y = matmul_reference(in, attrs);
  y[0].dtype = DType::f32;
  return y;
}

// What is added is f32 in every format.
OpCase matmul_to_f32_case(const OpCase& product) {
  OpCase one = product;
  one.op = "matmul_to_f32";
  if (one.inputs.size() > 2) one.inputs[2].format = CaseInput::Format::kKept;
  one.finite_differences = Differentiable::kNo;
  one.reference = matmul_to_f32_reference;
  return one;
}

}  // namespace
}  // namespace matmul_reference

std::vector<OpCase> matmul_cases() {
  using namespace matmul_reference;
  std::vector<OpCase> cases;
  const char* const orders[] = {"nn", "tn", "nt", "tt"};
  struct Size {
    const char* label;
    int64_t m, n, k;
  };
  // Around the sizes of tiles (14 × 32, 6 × 16, 6 × 8, 8 × 12) and of blocks of k (384), and degenerate ones.
  const Size sizes[] = {{"one", 1, 1, 1},       {"row", 1, 37, 19},         {"column", 41, 1, 23},
                        {"outer", 17, 33, 1},   {"tile", 28, 64, 24},       {"primes", 31, 53, 29},
                        {"over", 15, 65, 13},   {"thin", 129, 10, 7},       {"blocks", 9, 21, 773},
                        {"chunks", 5, 3, 8200}, {"many_parts", 257, 97, 40}};
  for (const Size& size : sizes) {
    for (int order = 0; order < 4; ++order) {
      cases.push_back(matmul_case(std::string(size.label) + "_" + orders[order], {}, size.m, size.n, size.k,
                                  order & 1, order >> 1));
    }
  }
  for (int order = 0; order < 4; ++order) {
    const std::string suffix = std::string("_") + orders[order];
    const int ta = order & 1, tb = order >> 1;
    cases.push_back(matmul_case("batch" + suffix, {3}, 7, 18, 11, ta, tb));
    cases.push_back(matmul_case("batch_of_batches" + suffix, {2, 6}, 16, 5, 9, ta, tb));
    cases.push_back(matmul_case("shared" + suffix, {2, 3}, 5, 35, 17, ta, tb, "none", SharedB::kYes));
  }
  for (const char* epilogue : {"bias", "residual", "bias_residual", "bias_gelu"}) {
    const std::string name = epilogue;
    cases.push_back(matmul_case(name, {}, 19, 45, 23, 0, 0, name));
    cases.push_back(matmul_case(name + "_wide", {}, 3, 130, 400, 0, 1, name));
    cases.push_back(matmul_case(name + "_chunks", {}, 2, 9, 8300, 1, 0, name));
    cases.push_back(matmul_case(name + "_batch", {2}, 6, 33, 10, 1, 0, name));
    cases.push_back(matmul_case(name + "_shared", {2, 2}, 6, 33, 10, 0, 0, name, SharedB::kYes));
    cases.push_back(matmul_case(name + "_no_k", {}, 4, 6, 0, 0, 0, name));
  }
  for (const OpCase& product :
       {matmul_case("odd", {}, 19, 45, 23, 0, 0), matmul_case("packs", {}, 40, 64, 48, 0, 1),
        matmul_case("batch", {2}, 6, 33, 10, 1, 0),
        matmul_case("shared", {2, 2}, 6, 40, 16, 0, 1, "none", SharedB::kYes),
        matmul_case("no_k", {}, 4, 6, 0, 0, 0)})
    cases.push_back(matmul_gelu_grad_case(product));
  for (const char* epilogue : {"none", "residual"}) {
    const std::string name = epilogue;
    for (const OpCase& product : {matmul_case(name + "_odd", {}, 19, 45, 23, 1, 0, name),
                                  matmul_case(name + "_packs", {}, 40, 64, 48, 1, 0, name),
                                  matmul_case(name + "_batch", {2}, 6, 33, 10, 0, 1, name),
                                  matmul_case(name + "_no_k", {}, 4, 6, 0, 0, 0, name)})
      cases.push_back(matmul_to_f32_case(product));
  }
  for (OpCase product : {matmul_case("in_out", {3}, 7, 8, 5, 0, 0, "none", SharedB::kYes),
                         matmul_case("out_in", {3}, 7, 8, 5, 0, 1, "none", SharedB::kYes)}) {
    product.op = "matmul_f32";
    for (CaseInput& input : product.inputs) input.format = CaseInput::Format::kKept;
    cases.push_back(product);
  }
  cases.push_back(matmul_case("no_k", {2}, 5, 7, 0, 0, 1));
  cases.push_back(matmul_case("no_m", {}, 0, 7, 3, 0, 0));
  cases.push_back(matmul_case("no_n", {}, 5, 0, 3, 0, 1));
  cases.push_back(matmul_case("no_batch", {0}, 5, 4, 3, 0, 0));
  return cases;
}

}  // namespace trireme::bench
