// A method by which replicas agree on a gradient: what it sends, and the nodes that it puts in the place of a
// sum over the ranks of an axis. One record and one function, in one file; what it may be set to is in
// plan/exchange_rule.cc. See README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/builder.h"
#include "trireme/plan/exchange_rule.h"

namespace trireme {

// The names of all states that methods keep begin with it.
inline constexpr std::string_view kKeptPrefix = "exchange.";
// The output of the update that has the squares of all that a rank has not sent yet; absent where none of its
// methods keeps that.
inline constexpr std::string_view kResidualSquares = "residual_squares";

// How tensors go from rank to rank. What one move of all gradients sends goes together.
enum class Move {
  kSum,     // any shape; comes back added up
  kMax,     // any shape; comes back as the largest of each element
  kGather,  // [n]; comes back as [ranks, n], a row from each rank
  kDeal,    // [ranks, n], a row for each rank; comes back as [ranks, n], a row from each
  kShift,   // [n], to the next rank; comes back as [n], from the one before
};

// What comes next of one gradient: either something is sent and the rest follows when it has come back, or
// the sum over the ranks is there.
struct NextMove {
  Move move = Move::kSum;
  std::vector<ValueId> sent = {};
  std::function<NextMove(const std::vector<ValueId>& received)> then = nullptr;
  ValueId agreed = kNoValue;  // of the shape of the gradient

  static NextMove send(Move move, std::vector<ValueId> sent,
                       std::function<NextMove(const std::vector<ValueId>& received)> then) {
    return {move, std::move(sent), std::move(then), kNoValue};
  }
  static NextMove done(ValueId agreed) { return {.agreed = agreed}; }
};

// What one rank has of a gradient, as a method sees it. Gradients are sums over targets times the loss scale;
// what is kept from step to step is in units of the mean, so that it means the same in each: times
// `common.unit` it is of a gradient's size.
class Addend {
 public:
  // A state that the method keeps.
  struct Kept {
    ValueId state;                           // as it is declared: [1, …], of which ranks have one each
    ValueId seen;                            // as the method sees it: […]
    ValueId next = kNoValue;                 // what it becomes unless the step is skipped
    enum class Of { kRank, kAll } of;        // each rank has its own; or all have the same
    enum class What { kRest, kOther } what;  // whether it is what was not sent
    std::string name;
  };

  // What all gradients of a step share.
  struct Common {
    int64_t ranks = 1, rank = 0;  // along the axis
    ValueId unit = kNoValue;      // loss scale times the count of targets of all ranks
    ValueId count = kNoValue, loss_scale = kNoValue, step = kNoValue;
    ValueId local_squares = kNoValue;  // of this rank's addends of all gradients that are exchanged
    // The last step (counted from 1) that these nodes are for, where a method does something else in early
    // steps; 0: they are for all that follow.
    int64_t until = 0;
  };

  Addend(Builder& builder, const Common& common, const ExchangeSettings& settings, std::string_view parameter,
         ValueId gradient);

  Builder& b;
  const Common& common;
  const ExchangeSettings& settings;

  const std::string& parameter() const { return parameter_; }
  ValueId gradient() const { return gradient_; }  // this rank's addend
  const Shape& shape() const { return b.shape(gradient_); }
  int64_t elements() const { return shape().elements(); }
  // As a matrix: the first dim, and the rest.
  int64_t rows() const { return shape().rank() == 0 ? 1 : shape()[0]; }
  int64_t columns() const { return rows() == 0 ? 0 : elements() / rows(); }

  ValueId reshaped(ValueId value, Shape shape);
  ValueId flat(ValueId value) { return reshaped(value, {b.shape(value).elements()}); }
  ValueId matrix(ValueId value) { return reshaped(value, {rows(), columns()}); }
  ValueId in_shape(ValueId value) { return reshaped(value, shape()); }

  // A state of this name, starting at zeros, or at random numbers that are the same on all ranks.
  enum class Start { kZeros, kNormal };
  ValueId keep(std::string_view name, Shape shape, Kept::Of of = Kept::Of::kRank, Start start = Start::kZeros,
               Kept::What what = Kept::What::kOther);
  ValueId keep_rest_in(std::string_view name) {
    return keep(name, shape(), Kept::Of::kRank, Start::kZeros, Kept::What::kRest);
  }
  // What it is after the step, unless that is skipped.
  void becomes(ValueId kept, ValueId value);

  // Error feedback: the gradient, or what a method makes of it, with what was not sent before; and what of
  // it, or given as it is, is left now.
  ValueId with_residual() { return with_residual(gradient_); }
  ValueId with_residual(ValueId value);
  void keep_rest(ValueId accumulated, ValueId sent);
  void keep_rest(ValueId rest);

  // A number for draws: another one for each gradient and rank.
  int64_t stream() const;

  const std::vector<Kept>& kept() const { return kept_; }

 private:
  std::string parameter_;
  ValueId gradient_;
  ValueId residual_ = kNoValue;
  std::vector<Kept> kept_;
};

struct ExchangeMethod {
  std::string_view name;
  NextMove (*begin)(Addend& addend);
  // Bytes that a rank sends for a gradient of this shape in a step, by the best algorithms of comm/.
  double (*bytes)(const Shape& shape, int64_t ranks, const ExchangeSettings& settings);
  // Why a gradient of this shape can not be exchanged so; "" where it can.
  std::string (*problem)(const Shape& shape, const ExchangeSettings& settings) = nullptr;
  // Whether it is worth it. Where it is not, a rule that names no parameters leaves them dense. Null: always.
  bool (*pays)(const Shape& shape, const ExchangeSettings& settings) = nullptr;
  // It has momentum, or a step of its own, in it: an optimizer with states, and clipping of what comes out,
  // would do that twice.
  enum class Direction { kGradient, kOwnMomentum, kOwnSteps } direction = Direction::kGradient;
  // Steps (counted from 1, ascending) after which it does something else than before: its nodes are then made
  // for each of them (Common::until), and for the steps behind the last. Null: it does the same in all.
  std::vector<int64_t> (*early)(const ExchangeSettings& settings) = nullptr;
  // Whether a rule that names no parameters is for vectors too.
  enum class Takes { kMatrices, kAll } takes = Takes::kMatrices;
};

// Bytes that a rank sends of `bytes`: in an all-reduce of them, and where each rank has so many for all
// others.
double bytes_of_sum(int64_t ranks, double bytes);
double bytes_of_gather(int64_t ranks, double bytes);
double bytes_of_deal(int64_t ranks, double bytes);  // `bytes` for all ranks together

const std::vector<ExchangeMethod>& exchange_methods();
const ExchangeMethod* find_exchange_method(std::string_view name);  // null when there is none

}  // namespace trireme
