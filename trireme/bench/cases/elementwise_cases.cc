// Cases of the element-wise ops.
#include <cmath>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace elementwise_reference {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double neg(double x) {
  return -x;
}
double exp(double x) {
  return std::exp(x);
}
double log(double x) {
  return std::log(x);
}
double sqrt(double x) {
  return std::sqrt(x);
}
double rsqrt(double x) {
  return 1 / std::sqrt(x);
}
double tanh(double x) {
  return std::tanh(x);
}
double erf(double x) {
  return std::erf(x);
}
double relu(double x) {
  return std::max(x, 0.0);
}
double silu(double x) {
  return x * sigmoid(x);
}

double tanh_grad(double dy, double y) {
  return dy * (1 - y * y);
}
double sigmoid_grad(double dy, double y) {
  return dy * y * (1 - y);
}
double relu_grad(double dy, double y) {
  return y > 0 ? dy : 0;
}
double silu_grad(double dy, double x) {
  return dy * (sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)));
}
double gelu_grad(double dy, double x) {
  return dy * gelu_slope(x);
}

double add(double a, double b) {
  return a + b;
}
double sub(double a, double b) {
  return a - b;
}
double mul(double a, double b) {
  return a * b;
}
double div(double a, double b) {
  return a / b;
}

RefTensors affine(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = like(in[0]);
  for (size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] = attrs.real("scale", 1) * in[0].values[i] + attrs.real("shift", 0);
  }
  return {y};
}

RefTensors compare(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = RefTensor::zeros(in[0].shape, DType::u8);
  const std::string& kind = attrs.text("kind");
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double a = in[0].values[i], b = in[1].values[i % in[1].values.size()];
    y.values[i] = kind == "lt"   ? a < b
                  : kind == "le" ? a <= b
                  : kind == "gt" ? a > b
                  : kind == "ge" ? a >= b
                  : kind == "eq" ? a == b
                                 : a != b;
  }
  return {y};
}

RefTensors select(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[1]);
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = (in[0].values[i] ? in[1] : in[2]).values[i];
  return {y};
}

RefTensors cast(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = RefTensor::zeros(in[0].shape, *parse_dtype(attrs.text("to")));
  y.values = in[0].values;
  return {y};
}

void add_unary_cases(std::vector<OpCase>& cases) {
  struct Unary {
    const char* op;
    RefTensors (*reference)(const RefTensors&, const Attrs&);
    double low, high;
  };
  const auto no = Differentiable::kNo;
  for (const Unary& u :
       {Unary{"neg", elementwise<neg>, -1, 1}, Unary{"exp", elementwise<exp>, -5, 3},
        Unary{"log", elementwise<log>, 0.1, 9}, Unary{"sqrt", elementwise<sqrt>, 0.1, 9},
        Unary{"rsqrt", elementwise<rsqrt>, 0.1, 9}, Unary{"tanh", elementwise<tanh>, -4, 4},
        Unary{"erf", elementwise<erf>, -4.5, 4.5}, Unary{"sigmoid", elementwise<sigmoid>, -8, 8}, Unary{"relu", elementwise<relu>, 0.1, 1},
        Unary{"gelu", elementwise<gelu>, -5, 5}, Unary{"silu", elementwise<silu>, -8, 8}}) {
    cases.push_back({u.op, "odd", {{{3, 37}, DType::f32, u.low, u.high}}, {}, u.reference});
    cases.push_back({u.op, "scalar", {{{}, DType::f32, u.low, u.high}}, {}, u.reference});
    cases.push_back({u.op, "large", {{{5, 7001}, DType::f32, u.low, u.high}}, {}, u.reference, 1e-5, no});
  }
  cases.push_back({"relu", "both_signs", {{{41}}}, {}, elementwise<relu>, 1e-5, no});
  for (const Unary& u :
       {Unary{"tanh_grad", elementwise<tanh_grad>, -1, 1},
        Unary{"sigmoid_grad", elementwise<sigmoid_grad>, 0, 1},
        Unary{"relu_grad", elementwise<relu_grad>, -1, 1}, Unary{"gelu_grad", elementwise<gelu_grad>, -6, 6},
        Unary{"silu_grad", elementwise<silu_grad>, -9, 9}}) {
    cases.push_back(
        {u.op, "odd", {{{3, 37}}, {{3, 37}, DType::f32, u.low, u.high}}, {}, u.reference, 1e-5, no});
    cases.push_back({u.op, "scalar", {{{}}, {{}, DType::f32, u.low, u.high}}, {}, u.reference, 1e-5, no});
  }
  cases.push_back(
      {"gelu_grad", "far_out", {{{9}}, {{9}, DType::f32, -3e4, 3e4}}, {}, elementwise<gelu_grad>, 1e-5, no});
  cases.push_back({"affine", "both", {{{5, 9}}}, {{"scale", 3.5}, {"shift", -0.25}}, affine});
  cases.push_back({"affine", "defaults", {{{21}}}, {}, affine});
}

void add_binary_cases(std::vector<OpCase>& cases) {
  struct Binary {
    const char* op;
    RefTensors (*reference)(const RefTensors&, const Attrs&);
  };
  for (const Binary& b : {Binary{"add", elementwise<add>}, Binary{"sub", elementwise<sub>},
                          Binary{"mul", elementwise<mul>}, Binary{"div", elementwise<div>}}) {
    const auto with_b = [&](const char* label, Shape x, Shape y) {
      cases.push_back({b.op, label, {{x}, {y, DType::f32, 0.5, 2}}, {}, b.reference});
    };
    with_b("same", {3, 37}, {3, 37});
    with_b("row", {5, 3, 37}, {37});
    with_b("matrix", {5, 3, 7}, {3, 7});
    with_b("scalar", {3, 37}, {});
    with_b("scalars", {}, {});
    with_b("column_of_one", {3, 1}, {1});
    cases.push_back({b.op,
                     "large",
                     {{{9, 5003}}, {{5003}, DType::f32, 0.5, 2}},
                     {},
                     b.reference,
                     1e-5,
                     Differentiable::kNo});
  }
  for (const char* kind : {"lt", "le", "gt", "ge", "eq", "ne"}) {
    const auto with = [&](const char* label, CaseInput a, CaseInput b) {
      cases.push_back(
          {"compare", std::string(kind) + label, {a, b}, {{"kind", kind}}, compare, 0, Differentiable::kNo});
    };
    with("_random", {{3, 37}}, {{3, 37}});
    with("_row", {{700, 37}, DType::f32, 0.5, 0.51}, {{37}, DType::f32, 0.5, 0.51});
    with("_equal", {{19}, DType::f32, 0.5, 0.5}, {{}, DType::f32, 0.5, 0.5});
  }
  for (const Shape& shape : {Shape{3, 37}, Shape{}, Shape{2100, 9}}) {
    cases.push_back({"select",
                     "rank" + std::to_string(shape.elements()),
                     {{shape, DType::u8, 0, 2}, {shape}, {shape}},
                     {},
                     select});
  }
}

void add_cast_cases(std::vector<OpCase>& cases) {
  for (const char* to : {"f32", "f16", "bf16", "f64"}) {
    const double rounding = to == std::string("bf16") ? 0x1p-8 : to == std::string("f16") ? 0x1p-10 : 0;
    const auto from = [&](const char* label, CaseInput x) {
      // Differences of the reference know nothing of rounding, and integers have no gradient.
      const bool exact = x.dtype == DType::f32 && to == std::string("f32");
      cases.push_back({"cast",
                       std::string(label) + "_to_" + to,
                       {x},
                       {{"to", to}},
                       cast,
                       rounding,
                       exact ? Differentiable::kYes : Differentiable::kNo});
    };
    from("float", {{5, 411}});
    from("f16", {{37}, DType::f16});
    from("bf16", {{37}, DType::bf16});
    from("i32", {{37}, DType::i32, -100, 100});
    from("i64", {{37}, DType::i64, -100, 100});
    from("u8", {{37}, DType::u8, 0, 256});
  }
}

// SwiGLU: silu(a) · b.
RefTensors swiglu(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[0]);
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = silu(in[0].values[i]) * in[1].values[i];
  return {y};
}
// Of a, b and the gradient of its result: those of a and b, and the result again.
RefTensors swiglu_grad(const RefTensors& in, const Attrs& attrs) {
  RefTensor da = like(in[0]), db = like(in[0]);
  for (size_t i = 0; i < da.values.size(); ++i) {
    da.values[i] = silu_grad(in[2].values[i] * in[1].values[i], in[0].values[i]);
    db.values[i] = in[2].values[i] * silu(in[0].values[i]);
  }
  return {da, db, swiglu(in, attrs)[0]};
}
// gelu((x + c) · s / 2 + 1): c repeats along the last dim, s everywhere.
RefTensors scaled_gelu(const RefTensors& in, const Attrs&) {
  RefTensor y = like(in[0]);
  const size_t period = in[1].values.size();
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = gelu((in[0].values[i] + in[1].values[i % period]) * in[2].values[0] / 2 + 1);
  return {y};
}

void add_map_cases(std::vector<OpCase>& cases) {
  const Attrs gate{{"code", std::string("silu(0); mul(2, 1)")}, {"results", std::vector<int64_t>{3}}};
  const Attrs slopes{{"code", std::string("silu(0); mul(3, 1); mul(2, 1); silu_grad(5, 0); mul(2, 3)")},
                     {"results", std::vector<int64_t>{6, 7, 4}}};
  const Attrs repeating{{"code", std::string("add(0, 1); mul(3, 2); affine(4) scale=0.5 shift=1; gelu(5)")},
                        {"results", std::vector<int64_t>{6}}};
  const auto add = [&](const std::string& label, std::vector<CaseInput> inputs, const Attrs& attrs,
                       auto reference) {
    cases.push_back({"map", label, std::move(inputs), attrs, reference, 1e-5, Differentiable::kNo});
  };
  for (const auto& [label, shape] :
       {std::pair{"packs", Shape{5, 7, 32}}, {"odd", Shape{3, 37}}, {"one", Shape{1}}}) {
    const CaseInput x{shape}, last{Shape{shape.back()}}, scalar{Shape{}};
    add(fmt::format("swiglu_{}", label), {x, x}, gate, swiglu);
    add(fmt::format("swiglu_grad_{}", label), {x, x, x}, slopes, swiglu_grad);
    add(fmt::format("repeating_{}", label), {x, last, scalar}, repeating, scaled_gelu);
  }
}

}  // namespace
}  // namespace elementwise_reference

std::vector<OpCase> elementwise_cases() {
  using namespace elementwise_reference;
  std::vector<OpCase> cases;
  add_map_cases(cases);
  add_unary_cases(cases);
  add_binary_cases(cases);
  add_cast_cases(cases);
  return cases;
}

}  // namespace trireme::bench
