// ONNX ops that compute element by element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value absolute(Emitter& e, const Value& x) {
  if (x.known)
    return e.unary(x, "", {[](double v) { return std::abs(v); }, [](int64_t v) { return v < 0 ? -v : v; }});
  return e.add(e.relu(x), e.relu(e.negate(x)));
}

// log(1 + e^x), without overflow: relu(x) + log(1 + e^−|x|).
Value softplus(Emitter& e, const Value& x) {
  return e.add(e.relu(x), e.log(e.affine(e.exp(e.negate(absolute(e, x))), 1, 1)));
}

// alpha·(e^x − 1) where x is negative, gain·x elsewhere; e^x of what is not negative is left out, because it
// may overflow.
Value elu(Emitter& e, const Value& x, double alpha, double gain, double width = 1) {
  const Value negative = e.negate(e.relu(e.negate(x)));
  return e.add(e.affine(e.relu(x), gain, 0),
               e.affine(e.exp(e.affine(negative, 1 / width, 0)), alpha, -alpha));
}

// Exactly one of both, so that infinities stay what they are.
Value largest(Emitter& e, const Value& a, const Value& b) {
  return e.select(e.compare(a, b, "ge"), a, b);
}
Value smallest(Emitter& e, const Value& a, const Value& b) {
  return e.select(e.compare(a, b, "le"), a, b);
}

Value hard_sigmoid(Emitter& e, const Value& x, double alpha, double beta) {
  const Value y = e.affine(x, alpha, beta);
  return e.affine(e.relu(e.affine(e.relu(y), -1, 1)), -1, 1);  // 1 − relu(1 − relu(y))
}

Values clip(Node& n) {
  double low = -kInfinity, high = kInfinity;
  if (n.opset < 11) {
    low = n.real("min", low);
    high = n.real("max", high);
  } else {
    if (n.has(1)) low = n.known_real(1, "lower bound");
    if (n.has(2)) high = n.known_real(2, "upper bound");
  }
  Value x = n.in(0);
  if (x.known) {
    Tensor result = *x.known;
    for (int64_t i = 0; i < result.elements(); ++i) {
      if (result.real(i) < low) store(result, i, low);
      if (result.real(i) > high) store(result, i, high);
    }
    return {Emitter::known(std::move(result))};
  }
  if (low == 0 && high > 0) {
    x = n.e.relu(x);
  } else if (low > -kInfinity) {
    x = largest(n.e, x, Emitter::scalar(low));
  }
  // Clip(0, 6) of mobile nets, with ops that every device fuses.
  if (high < kInfinity && low == 0) {
    x = n.e.affine(n.e.relu(n.e.affine(x, -1, high)), -1, high);
  } else if (high < kInfinity) {
    x = smallest(n.e, x, Emitter::scalar(high));
  }
  return {x};
}

// x^k by squaring.
Value whole_power(Emitter& e, const Value& x, int64_t k) {
  Value result = k & 1 ? x : Value();
  Value square = x;
  for (k >>= 1; k > 0; k >>= 1) {
    square = e.multiply(square, square);
    if (k & 1) result = result.type == Type::kNone ? square : e.multiply(result, square);
  }
  return result;
}

// By each exponent that occurs; powers that are no whole number or half of one are of positive numbers
// alone, which nobody can promise.
Value power(Emitter& e, const Value& x, double exponent) {
  if (exponent == 0) return e.affine(x, 0, 1);
  if (exponent < 0) return e.divide(Emitter::scalar(1), power(e, x, -exponent));
  if (exponent == 0.5) return e.sqrt(x);
  if (exponent == std::floor(exponent) && exponent <= 64)
    return whole_power(e, x, static_cast<int64_t>(exponent));
  if (2 * exponent == std::floor(2 * exponent) && exponent <= 32)
    return e.multiply(whole_power(e, x, static_cast<int64_t>(exponent)), e.sqrt(x));
  throw_error("its exponent is {}; whole numbers to 64 and halves of them are supported", exponent);
}

Values pow_op(Node& n) {
  const Value& x = n.in(0);
  const Tensor& exponents = n.constant(1, "exponent");
  if (x.known) {
    const Value real = n.e.cast(x, Type::kF64), by = n.e.cast(Emitter::known(exponents), Type::kF64);
    return {n.e.cast(n.e.binary(real, by, "", {[](double a, double b) { return std::pow(a, b); }}), x.type)};
  }
  std::vector<double> different;
  for (int64_t i = 0; i < exponents.elements(); ++i) {
    if (std::ranges::find(different, exponents.real(i)) == different.end())
      different.push_back(exponents.real(i));
  }
  if (different.empty() || different.size() > 16)
    throw_error("it has {} different exponents; 1 to 16 are supported", different.size());
  Value result = power(n.e, x, different[0]);
  for (size_t k = 1; k < different.size(); ++k) {
    const Value here =
        n.e.compare(Emitter::known(exponents),
                    Emitter::known(onnx::cast(reals({}, {different[k]}), exponents.type)), "eq");
    result = n.e.select(here, power(n.e, x, different[k]), result);
  }
  return {n.e.expand(result, broadcast_shape(x.shape, exponents.shape))};
}

// Both of integers; `fmod` takes the sign of the first operand.
Values modulo(Node& n) {
  const bool fmod = n.integer("fmod", 0) != 0;
  if (fmod)
    return {n.e.binary(n.in(0), n.in(1), "",
                       {[](double a, double b) { return std::fmod(a, b); },
                        [](int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }})};
  return {n.e.binary(n.in(0), n.in(1), "",
                     {[](double a, double b) { return a - b * std::floor(a / b); },
                      [](int64_t a, int64_t b) {
                        if (b == 0 || b == -1) return int64_t{0};
                        return (a % b + b) % b;
                      }})};
}

// In opsets before 7 the second operand lies at a certain place of the first.
std::pair<Value, Value> operands(Node& n) {
  Value b = n.in(1);
  if (n.opset < 7 && n.integer("broadcast", 0) != 0 && n.has_attribute("axis")) {
    const int axis = n.axis(0);
    Shape shape = b.shape;
    while (shape.rank() < n.in(0).shape.rank() - axis) shape.push_back(1);
    b = n.e.reshape(b, shape);
  }
  return {n.in(0), b};
}

template <Value (Emitter::*op)(const Value&, const Value&)>
Values binary(Node& n) {
  const auto [a, b] = operands(n);
  return {(n.e.*op)(a, b)};
}
template <Value (Emitter::*op)(const Value&)>
Values unary(Node& n) {
  return {(n.e.*op)(n.in(0))};
}
// Of all inputs, from the first to the last.
template <Value (*two)(Emitter&, const Value&, const Value&)>
Values all(Node& n) {
  Value result = n.in(0);
  for (int i = 1; i < n.inputs(); ++i) result = two(n.e, result, n.in(i));
  return {result};
}
Value sum_of_two(Emitter& e, const Value& a, const Value& b) {
  return e.add(a, b);
}

// Truth values are 0 and 1.
Value truth_and(Emitter& e, const Value& a, const Value& b) {
  if (a.known && b.known) return e.multiply(a, b);
  Value result = e.multiply(a, b);
  result.type = Type::kBool;
  return result;
}
Value truth_not(Emitter& e, const Value& a) {
  if (a.known) return e.compare(a, Emitter::known(zeros(Type::kBool, {})), "eq");
  Value result = e.affine(a, -1, 1);
  result.type = Type::kBool;
  return result;
}

Values compare_with(Node& n, std::string_view kind) {
  const auto [a, b] = operands(n);
  return {n.e.compare(a, b, kind)};
}

double erf_of(double x) {
  return std::erf(x);
}

Values prelu(Node& n) {
  Value slope = n.in(1);
  const Shape& x = n.in(0).shape;
  if (n.opset < 7 && slope.shape.rank() == 1 && x.rank() > 1) {  // a slope for each channel
    Shape shape = slope.shape;
    while (shape.rank() < x.rank() - 1) shape.push_back(1);
    slope = n.e.reshape(slope, shape);
  }
  const Value negative = n.e.relu(n.e.negate(n.in(0)));
  return {n.e.subtract(n.e.relu(n.in(0)), n.e.multiply(negative, slope))};
}

Values gelu(Node& n) {
  if (n.text("approximate", "none") == "tanh") return {n.e.op("gelu", {n.in(0)})};
  const Value half = n.e.affine(n.in(0), 0.5, 0);
  const Value inside = n.e.unary(n.e.affine(n.in(0), 1 / std::sqrt(2.0), 0), "erf", {erf_of});
  return {n.e.multiply(half, n.e.affine(inside, 1, 1))};
}

Values shrink(Node& n) {
  const double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0);
  const Value &x = n.in(0), zero = Emitter::scalar(0);
  const Value high = n.e.select(n.e.compare(x, Emitter::scalar(lambda), "gt"), n.e.affine(x, 1, -bias), zero);
  return {n.e.select(n.e.compare(x, Emitter::scalar(-lambda), "lt"), n.e.affine(x, 1, bias), high)};
}

Values shift(Node& n) {
  if (n.text("direction", "") == "LEFT")
    return {n.e.binary(n.in(0), n.in(1), "",
                       {nullptr, [](int64_t a, int64_t b) {
                          return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
                        }})};
  return {n.e.binary(n.in(0), n.in(1), "",
                     {nullptr, [](int64_t a, int64_t b) {
                        return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
                      }})};
}

Values dropout(Node& n) {
  const double rate = n.opset < 12 ? n.real("ratio", 0.5) : n.has(1) ? n.known_real(1, "ratio") : 0.5;
  // Before opset 7 a flag says that it is a test; from 12 on an input says that it is not.
  const bool training = n.opset < 7 ? n.integer("is_test", 0) == 0
                                    : n.opset >= 12 && n.has(2) && n.known_real(2, "training_mode") != 0;
  if (!training || rate == 0) {
    Tensor kept = zeros(Type::kBool, n.gives(1) ? n.in(0).shape : Shape());
    std::ranges::fill(kept.integers, 1);
    return {n.in(0), Emitter::known(std::move(kept))};
  }
  if (!n.e.around().dropout) return {n.in(0)};
  return {n.e.computed(n.e.around().dropout(n.e.id(n.in(0)), rate))};
}

Values random_is_refused(Node&) {
  throw_error("it draws random numbers in a way that differs from framework to framework");
}

template <double (*f)(double)>
Values only_folded(Node& n) {
  return {n.e.unary(n.in(0), "", {f})};
}

}  // namespace

std::vector<LoweringEntry> elementwise_ops() {
  using N = Node;
  return {
      {"Add", binary<&Emitter::add>},
      {"Sub", binary<&Emitter::subtract>},
      {"Mul", binary<&Emitter::multiply>},
      {"Div", binary<&Emitter::divide>},
      {"Sum", all<sum_of_two>},
      {"Max", all<largest>},
      {"Min", all<smallest>},
      {"Mean", [](N& n) { return Values{n.e.affine(all<sum_of_two>(n)[0], 1.0 / n.inputs(), 0)}; }},
      {"Mod", modulo},
      {"Pow", pow_op},
      {"BitShift", shift},
      {"Abs", [](N& n) { return Values{absolute(n.e, n.in(0))}; }},
      {"Neg", unary<&Emitter::negate>},
      {"Exp", unary<&Emitter::exp>},
      {"Log", unary<&Emitter::log>},
      {"Sqrt", unary<&Emitter::sqrt>},
      {"Tanh", unary<&Emitter::tanh>},
      {"Sigmoid", unary<&Emitter::sigmoid>},
      {"Relu", unary<&Emitter::relu>},
      {"Reciprocal", [](N& n) { return Values{n.e.divide(Emitter::scalar(1), n.in(0))}; }},
      {"Erf", [](N& n) { return Values{n.e.unary(n.in(0), "erf", {erf_of})}; }},
      {"Gelu", gelu},
      {"Sign",
       [](N& n) {
         const Value& x = n.in(0);
         if (x.known)
           return Values{n.e.unary(x, "",
                                   {[](double v) { return static_cast<double>((v > 0) - (v < 0)); },
                                    [](int64_t v) { return static_cast<int64_t>((v > 0) - (v < 0)); }})};
         Value result =
             n.e.subtract(n.e.compare(x, Emitter::scalar(0), "gt"), n.e.compare(x, Emitter::scalar(0), "lt"));
         return Values{result};
       }},
      {"Floor", only_folded<std::floor>},
      {"Ceil", only_folded<std::ceil>},
      {"Round", only_folded<std::nearbyint>},
      {"Sin", only_folded<std::sin>},
      {"Cos", only_folded<std::cos>},
      {"Softplus", [](N& n) { return Values{softplus(n.e, n.in(0))}; }},
      {"Softsign",
       [](N& n) { return Values{n.e.divide(n.in(0), n.e.affine(absolute(n.e, n.in(0)), 1, 1))}; }},
      {"Mish", [](N& n) { return Values{n.e.multiply(n.in(0), n.e.tanh(softplus(n.e, n.in(0))))}; }},
      {"Elu", [](N& n) { return Values{elu(n.e, n.in(0), n.real("alpha", 1), 1)}; }},
      {"Celu",
       [](N& n) {
         const double alpha = n.real("alpha", 1);
         return Values{elu(n.e, n.in(0), alpha, 1, alpha)};
       }},
      {"Selu",
       [](N& n) {
         const double gain = n.real("gamma", 1.05070102214813232421875);
         return Values{elu(n.e, n.in(0), gain * n.real("alpha", 1.67326319217681884765625), gain)};
       }},
      {"LeakyRelu",
       [](N& n) {
         const double slope = n.real("alpha", 0.01);
         return Values{n.e.add(n.e.relu(n.in(0)), n.e.affine(n.e.relu(n.e.negate(n.in(0))), -slope, 0))};
       }},
      {"PRelu", prelu},
      {"ThresholdedRelu",
       [](N& n) {
         const Value above = n.e.compare(n.in(0), Emitter::scalar(n.real("alpha", 1)), "gt");
         return Values{n.e.select(above, n.in(0), Emitter::scalar(0))};
       }},
      {"Shrink", shrink},
      {"HardSigmoid",
       [](N& n) { return Values{hard_sigmoid(n.e, n.in(0), n.real("alpha", 0.2), n.real("beta", 0.5))}; }},
      {"HardSwish",
       [](N& n) { return Values{n.e.multiply(n.in(0), hard_sigmoid(n.e, n.in(0), 1.0 / 6, 0.5))}; }},
      {"Clip", clip},
      {"Cast", [](N& n) { return Values{n.e.cast(n.in(0), static_cast<Type>(n.integer("to", 0)))}; }},
      {"CastLike", [](N& n) { return Values{n.e.cast(n.in(0), n.in(1).type)}; }},
      {"Identity", [](N& n) { return Values{n.in(0)}; }},
      {"Dropout", dropout},
      {"Bernoulli", random_is_refused},
      {"Equal", [](N& n) { return compare_with(n, "eq"); }},
      {"Less", [](N& n) { return compare_with(n, "lt"); }},
      {"LessOrEqual", [](N& n) { return compare_with(n, "le"); }},
      {"Greater", [](N& n) { return compare_with(n, "gt"); }},
      {"GreaterOrEqual", [](N& n) { return compare_with(n, "ge"); }},
      {"Not", [](N& n) { return Values{truth_not(n.e, n.in(0))}; }},
      {"And", [](N& n) { return Values{truth_and(n.e, n.in(0), n.in(1))}; }},
      {"Or",
       [](N& n) {
         return Values{truth_not(n.e, truth_and(n.e, truth_not(n.e, n.in(0)), truth_not(n.e, n.in(1))))};
       }},
      {"Xor", [](N& n) { return Values{n.e.compare(n.in(0), n.in(1), "ne")}; }},
      {"IsNaN", [](N& n) { return Values{n.e.compare(n.in(0), n.in(0), "ne")}; }},
      {"IsInf",
       [](N& n) {
         const Value none = Emitter::known(zeros(Type::kBool, n.in(0).shape));
         const Value high =
             n.integer("detect_positive", 1) ? n.e.compare(n.in(0), Emitter::scalar(kInfinity), "eq") : none;
         const Value low =
             n.integer("detect_negative", 1) ? n.e.compare(n.in(0), Emitter::scalar(-kInfinity), "eq") : none;
         return Values{truth_not(n.e, truth_and(n.e, truth_not(n.e, high), truth_not(n.e, low)))};
       }},
      {"Where", [](N& n) { return Values{n.e.select(n.in(0), n.in(1), n.in(2))}; }},
  };
}

}  // namespace trireme::onnx
