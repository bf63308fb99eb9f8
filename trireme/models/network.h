// What models are written with: a Builder, plus parameters by name, the mode (training or evaluation) and the
// few layers that every model uses. Everything a model here can do, a user's model can do.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/ir/builder.h"
#include "trireme/ir/scope.h"

namespace trireme {

// kDecode and kWindow are for generating text, several texts at a time. kDecode takes the next tokens of
// each, and goes on from the keys and values of those before, which it keeps in states. kWindow reads all
// that a token may see each time, and gives logits for one place of each row alone.
enum class Mode { kTrain, kEvaluate, kDecode, kWindow };

// How a parameter starts.
struct Init {
  enum class Kind { kZeros, kOnes, kNormal, kUniform } kind = Kind::kZeros;
  double scale = 0;  // the standard deviation, or the bound of the uniform distribution

  static Init zeros() { return {Kind::kZeros, 0}; }
  static Init ones() { return {Kind::kOnes, 0}; }
  static Init normal(double deviation) { return {Kind::kNormal, deviation}; }
  static Init uniform(double bound) { return {Kind::kUniform, bound}; }
};

enum class Bias { kNone, kZeros, kUniform };

// How tensor parallelism may split the weights of a layer: the first layer of a pair by its outputs, the
// second by its inputs, so that nothing moves between them. Kept as attributes of the parameter
// (`tensor_dim`, `tensor_unit`, `tensor_blocks`) for plans to read (passes/pins.h). The attribute
// `layer` tells plans convolutions, which are better split by batch, and norms, which go along the sequence.
struct TensorSplit {
  enum class Side { kNone, kOutputs, kInputs } side = Side::kNone;
  int64_t unit = 1;    // features that stay together: those of a head
  int64_t blocks = 1;  // equal blocks of features, each split alike: q, k and v
};

// Both f32 scalars, so that microbatches and ranks can be added up: the sum over targets, and how many
// counted.
struct Loss {
  ValueId sum = kNoValue, count = kNoValue;
};

// Of parameters of adapters.
inline constexpr std::string_view kAdapts = "adapts";
std::string adapter_name(std::string_view layer, char which);  // 'A' or 'B'
bool is_adapter_name(std::string_view parameter);

// In how many groups of rows batch norms take their statistics; and over how many of them running statistics
// are averaged: all (0), or those of one replica, where replicas keep their own.
struct NormGroups {
  int64_t count = 1, averaged = 0;
};

class Network {
 public:
  Network(Builder& builder, Mode mode, double dropout_rate, NormGroups norm_groups = {})
      : builder_(builder), mode_(mode), dropout_rate_(dropout_rate), norm_groups_(norm_groups) {}

  Mode mode() const { return mode_; }
  Builder& builder() { return builder_; }
  const Shape& shape(ValueId value) const { return builder_.shape(value); }

  // Results are named by scopes (ir/scope.h), and those by what names of parameters begin with: within
  // scope("h.3"), scope("h.3.attn") is h.3/attn. Layers below have the scope of their name.
  [[nodiscard]] Builder::Scope scope(std::string_view name) {
    return Builder::Scope(builder_, name_within(builder_.scope(), name));
  }

  // A trained tensor. The name is the one it has in checkpoints; asking again gives the same parameter.
  ValueId parameter(const std::string& name, const Shape& shape, Init init, Attrs more = {});
  // [rows, width], of which rows are taken by id; tensor parallelism splits it by rows.
  ValueId table(const std::string& name, int64_t rows, int64_t width, Init init);
  // A state that is not trained (running statistics).
  ValueId buffer(const std::string& name, const Shape& shape, Init init, Attrs more = {});
  const std::vector<ValueId>& parameters() const { return parameters_; }

  // Any op of docs/ops.md; an attribute that it does not have is an Error.
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> node(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {});
  ValueId reshape(ValueId x, const Shape& shape);
  ValueId flatten(ValueId x);  // [n, …] as [n, features]
  std::vector<ValueId> split(ValueId x, int64_t dim, const std::vector<int64_t>& sizes);

  // x·W + b with `name.weight` stored [in, out] (as GPT-2 does) or [out, in] (as PyTorch and Llama do).
  enum class Store { kInOut, kOutIn };
  ValueId linear(ValueId x, const std::string& name, int64_t outputs, Store store, Init init, Bias bias,
                 const TensorSplit& split = {});
  ValueId layer_norm(ValueId x, const std::string& name, double eps = 1e-5);
  ValueId rms_norm(ValueId x, const std::string& name, double eps = 1e-5);
  // `name.{weight,bias,running_mean,running_var}`; batch statistics in training, running ones in evaluation.
  // Rows are normalised in as many groups of neighbours as NormGroups says.
  ValueId batch_norm(ValueId x, const std::string& name);
  // The same of tensors by any names; `momentum` weighs the statistics of the batch.
  ValueId batch_norm(ValueId x, ValueId gain, ValueId bias, ValueId mean, ValueId variance, double eps = 1e-5,
                     double momentum = 0.1);
  // A square kernel with padding (kernel − 1)/2 unless given; `name.weight`, and `name.bias` where asked for.
  struct Conv {
    int64_t filters, kernel, stride = 1, padding = -1;
    Bias bias = Bias::kNone;
  };
  ValueId conv2d(ValueId x, const std::string& name, Conv conv);
  ValueId max_pool2d(ValueId x, int64_t kernel, int64_t stride, int64_t padding = 0);
  ValueId dropout(ValueId x) { return dropout(x, dropout_rate_); }  // at the network's rate
  ValueId dropout(ValueId x, double rate);                          // in training only
  // For ops that draw random numbers: the input that keys them, and a stream of numbers that no other op
  // draws from.
  ValueId rng();
  int64_t next_stream() { return ++streams_; }

  // What training adds up over the microbatches and ranks of a step, beside loss and count: an output of the
  // forward part. One of the role kObjective is part of what gradients are of.
  struct Tally {
    std::string layer;
    OutputRole role;
    ValueId value;
  };
  void tally(std::string layer, OutputRole role, ValueId value) {
    tallies_.push_back({std::move(layer), role, value});
  }
  const std::vector<Tally>& tallies() const { return tallies_; }

  // Of logits […, classes] and targets, i32 […]; a target of −1 counts for nothing.
  Loss cross_entropy(ValueId logits, ValueId targets, double label_smoothing = 0);
  // (prediction − expected)², of two tensors of one shape; every element is a target.
  Loss squared_error(ValueId prediction, ValueId expected);

  // How many texts keep keys and values (kDecode): each in a line of its own. The inputs `line` and
  // `position`, i32 [b], say of each row of a batch which line it goes on with, and at which position;
  // `positions`, i32 [b, t], the same of each token.
  void set_lines(int64_t lines) { lines_ = lines; }

  // What knows of positions. x is [b, t, …] with the position of a token in dim 1; `seq` the positions that
  // there are at most.
  ValueId position_rows(ValueId table, ValueId ids);  // of a table [seq, h]: to be added to [b, t, h]
  ValueId rope(ValueId x, double base);
  // Attention over heads of q [b, t, groups, heads of a group, d] and k, v [b, t, groups, d], to tokens up to
  // each one's own place or to all. `name` is that of the states that keep k and v; text is not generated
  // with kAll.
  enum class Sees { kEarlier, kAll };
  ValueId attention(ValueId q, ValueId k, ValueId v, const std::string& name, int64_t seq,
                    Sees sees = Sees::kEarlier);
  // The same to all of another sequence, k and v [b, s, groups, d], of which row b has lengths[b] tokens,
  // i32: those after them are padding.
  ValueId attention_to_lengths(ValueId q, ValueId k, ValueId v, ValueId lengths);
  // Low-rank adapters: linear layers whose names fit compute x·W + scale·(x·Aᵀ)·Bᵀ, with `name.lora_A.weight`
  // [rank, in] and `name.lora_B.weight` [out, rank], which starts at zero. Their parameters have the
  // attribute `adapts`: the name of the weight; and A `in_out` where that is stored so.
  struct Adapters {
    int64_t rank = 0;  // 0: none
    double scale = 1;
    std::function<bool(std::string_view layer)> fits = nullptr;
  };
  void set_adapters(Adapters adapters) { adapters_ = std::move(adapters); }
  const std::vector<std::string>& linear_layers() const { return linear_layers_; }  // made so far, by name

  // The rows of x [b, t, h] that logits are wanted of: of a window [b, 1, h], at the input `last`, i32 [b,
  // 1], which counts the rows of all windows.
  ValueId rows_for_logits(ValueId x);

 private:
  ValueId state(const std::string& name, const Shape& shape, Init init, Role role, Attrs more = {});
  ValueId adapter(ValueId x, const std::string& name, int64_t outputs, Store store, const TensorSplit& split);
  ValueId place(const char* name, const Shape& shape);
  ValueId kept(ValueId rows, const std::string& name, int64_t seq);

  Builder& builder_;
  Mode mode_;
  double dropout_rate_;
  NormGroups norm_groups_;
  std::vector<ValueId> parameters_;
  Adapters adapters_;
  std::vector<std::string> linear_layers_;
  ValueId rng_ = kNoValue;
  int64_t lines_ = 1;
  int64_t streams_ = 0;
  std::vector<Tally> tallies_;
};

}  // namespace trireme
