// Swin transformer: attention within windows of patches, which every other block shifts by half a window,
// over four stages that merge 2×2 patches each. Parameters have the names of the authors' code. Windows need
// a bias by relative position and a mask, which the op `attention` does not have: it is written out in
// products and a softmax.
#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace swin {
namespace {

using Ints = std::vector<int64_t>;
using Side = TensorSplit::Side;
constexpr int64_t kStages = 4;
constexpr double kDeviation = 0.02;
constexpr double kHidden = -100;  // a score that softmax makes nothing of

ValueId transpose(Network& net, ValueId x, Ints perm) {
  return net.op("transpose", {x}, {{"perm", std::move(perm)}});
}
ValueId slice(Network& net, ValueId x, int64_t dim, int64_t start, int64_t size) {
  return net.op("slice", {x}, {{"dim", dim}, {"start", start}, {"size", size}});
}
ValueId broadcast(Network& net, ValueId x, const Shape& shape, Ints dims) {
  return net.op("broadcast", {x}, {{"shape", Ints(shape.begin(), shape.end())}, {"dims", std::move(dims)}});
}
ValueId scaled(Network& net, ValueId x, double scale) {
  return net.op("affine", {x}, {{"scale", scale}});
}
ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs, Bias bias,
               const TensorSplit& split = {}) {
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::normal(kDeviation), bias, split);
}

// The windows of one stage: `side` patches each way, on a grid of rows × columns.
struct Windows {
  int64_t rows, columns, side;

  int64_t count() const { return rows / side * (columns / side); }
  int64_t patches() const { return side * side; }
  // An image that is one window has nothing to be shifted to.
  int64_t shift() const { return std::min(rows, columns) > side ? side / 2 : 0; }
};

// [n, rows, columns, c] as [n, windows, patches of one, c], and back.
ValueId to_windows(Network& net, ValueId x, const Windows& w) {
  const int64_t n = net.shape(x)[0], c = net.shape(x)[3];
  x = net.reshape(x, {n, w.rows / w.side, w.side, w.columns / w.side, w.side, c});
  return net.reshape(transpose(net, x, {0, 1, 3, 2, 4, 5}), {n, w.count(), w.patches(), c});
}
ValueId from_windows(Network& net, ValueId x, const Windows& w) {
  const int64_t n = net.shape(x)[0], c = net.shape(x)[3];
  x = net.reshape(x, {n, w.rows / w.side, w.columns / w.side, w.side, w.side, c});
  return net.reshape(transpose(net, x, {0, 1, 3, 2, 4, 5}), {n, w.rows, w.columns, c});
}

// Rows and columns moved up by `by`, or down where it is negative; what leaves on one side comes in on the
// other.
ValueId roll(Network& net, ValueId x, int64_t by) {
  for (const int64_t dim : {1, 2}) {
    const int64_t extent = net.shape(x)[static_cast<int>(dim)], first = by > 0 ? by : extent + by;
    x = net.op("concat", {slice(net, x, dim, first, extent - first), slice(net, x, dim, 0, first)},
               {{"dim", dim}});
  }
  return x;
}

// [2m − 1, …] to [m, m, …] with y[a, b] = x[b − a + m − 1]: copies side by side, each one element longer than
// a row, so that every row of the result starts one element earlier.
ValueId shifted_rows(Network& net, ValueId x, int64_t m) {
  const Shape from = net.shape(x);
  const int64_t length = 2 * m - 1;
  Shape copies{m}, flat{m * (length + 1)}, rows{m, length};
  Ints dims;
  for (int dim = 0; dim < from.rank(); ++dim) {
    copies.push_back(from[dim]);
    dims.push_back(dim + 1);
    if (dim == 0) continue;
    flat.push_back(from[dim]);
    rows.push_back(from[dim]);
  }
  x = net.op("pad", {broadcast(net, x, copies, dims)},
             {{"dim", int64_t{1}}, {"low", int64_t{0}}, {"high", int64_t{1}}});
  x = net.reshape(slice(net, net.reshape(x, flat), 0, 0, m * length), rows);
  return slice(net, x, 1, m - 1, m);
}

// Of each pair of a window's patches, by how far they are apart: [heads, patches, patches].
ValueId relative_bias(Network& net, const std::string& name, const Windows& w, int64_t heads) {
  const int64_t m = w.side, length = 2 * m - 1;
  const ValueId table = net.parameter(name + ".relative_position_bias_table", {length * length, heads},
                                      Init::normal(kDeviation), {{"tensor_dim", int64_t{1}}});
  ValueId x =
      shifted_rows(net, net.reshape(table, {length, length, heads}), m);  // [key y, query y, length, heads]
  x = shifted_rows(net, transpose(net, x, {2, 0, 1, 3}), m);  // [key x, query x, key y, query y, heads]
  return net.reshape(transpose(net, x, {4, 3, 1, 2, 0}), {heads, w.patches(), w.patches()});
}

// For shifted windows: kHidden between patches that only the roll has made neighbours, 0 between others;
// [windows, patches, patches]. Made from a one that is kept as a buffer: there are no constants in a graph.
ValueId shift_mask(Network& net, const Windows& w) {
  const ValueId one = net.buffer("one", {}, Init::ones());
  // Three stretches: what was not moved with others, and the two that meet in the last window.
  const auto stretches = [&](int64_t extent, double unit) {
    std::vector<ValueId> parts;
    const int64_t sizes[] = {extent - w.side, w.side - w.shift(), w.shift()};
    for (int i = 0; i < 3; ++i) {
      if (sizes[i] > 0) parts.push_back(broadcast(net, scaled(net, one, i * unit), {sizes[i]}, {}));
    }
    return net.op("concat", parts, {{"dim", int64_t{0}}});
  };
  const Shape grid{w.rows, w.columns};
  ValueId region = net.op("add", {broadcast(net, stretches(w.rows, 3), grid, {0}),
                                  broadcast(net, stretches(w.columns, 1), grid, {1})});
  region = net.reshape(region, {w.rows / w.side, w.side, w.columns / w.side, w.side});
  region = net.reshape(transpose(net, region, {0, 2, 1, 3}), {w.count(), w.patches()});
  const Shape pairs{w.count(), w.patches(), w.patches()};
  const ValueId apart =
      net.op("compare", {broadcast(net, region, pairs, {0, 1}), broadcast(net, region, pairs, {0, 2})},
             {{"kind", "ne"}});
  return net.op("select", {apart, broadcast(net, scaled(net, one, kHidden), pairs, {}),
                           broadcast(net, scaled(net, one, 0), pairs, {})});
}

// x is [n, windows, patches, c].
ValueId window_attention(Network& net, ValueId x, const std::string& name, const Windows& w, int64_t heads,
                         ValueId mask) {
  const Builder::Scope part = net.scope(name);
  const int64_t n = net.shape(x)[0], c = net.shape(x)[3], d = c / heads, t = w.patches();
  const std::vector<ValueId> qkv =
      net.split(linear(net, x, name + ".qkv", 3 * c, Bias::kZeros, {Side::kOutputs, d, 3}), 3, {c, c, c});
  const auto by_head = [&](ValueId y) {
    return transpose(net, net.reshape(y, {n, w.count(), t, heads, d}), {0, 1, 3, 2, 4});
  };
  const ValueId q = scaled(net, by_head(qkv[0]), 1 / std::sqrt(static_cast<double>(d)));
  const ValueId scores = net.op("matmul", {q, by_head(qkv[1])}, {{"transpose_b", int64_t{1}}});
  ValueId bias = relative_bias(net, name, w, heads);
  if (mask != kNoValue) {
    const Shape all{w.count(), heads, t, t};
    bias = net.op("add", {broadcast(net, bias, all, {1, 2, 3}), broadcast(net, mask, all, {0, 2, 3})});
  }
  const ValueId weights = net.op("softmax", {net.op("add", {scores, bias})});
  const ValueId y = transpose(net, net.op("matmul", {weights, by_head(qkv[2])}), {0, 1, 3, 2, 4});
  return net.dropout(
      linear(net, net.reshape(y, {n, w.count(), t, c}), name + ".proj", c, Bias::kZeros, {Side::kInputs, d}));
}

ValueId feed_forward(Network& net, ValueId x, const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const int64_t c = net.shape(x).back();
  const ValueId inside =
      net.op("gelu", {linear(net, x, name + ".fc1", 4 * c, Bias::kZeros, {Side::kOutputs})});
  return net.dropout(linear(net, inside, name + ".fc2", c, Bias::kZeros, {Side::kInputs}));
}

enum class Shifted { kNo, kYes };
ValueId swin_block(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                   const Windows& w, int64_t heads, Shifted shifted) {
  const Builder::Scope block = net.scope(name);
  const int64_t by = shifted == Shifted::kYes ? w.shift() : 0;
  ValueId y = net.layer_norm(x, name + ".norm1", options.norm_eps);
  if (by > 0) y = roll(net, y, by);
  y = window_attention(net, to_windows(net, y, w), name + ".attn", w, heads,
                       by > 0 ? shift_mask(net, w) : kNoValue);
  y = from_windows(net, y, w);
  if (by > 0) y = roll(net, y, -by);
  x = net.op("add", {x, y});
  return net.op("add",
                {x, feed_forward(net, net.layer_norm(x, name + ".norm2", options.norm_eps), name + ".mlp")});
}

// A convolution whose windows do not overlap, as the product that it is: plans then split nothing of it.
ValueId embed_patches(Network& net, const ModelOptions& options, ValueId images) {
  const std::string name = "patch_embed.proj";
  const Builder::Scope part = net.scope("patch_embed");
  const Shape in = net.shape(images);
  const int64_t p = options.patch, inputs = in[1] * p * p;
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(inputs)));
  const ValueId weight = net.parameter(name + ".weight", {options.hidden, in[1], p, p}, init);
  ValueId x = net.reshape(images, {in[0], in[1], in[2] / p, p, in[3] / p, p});
  x = net.reshape(transpose(net, x, {0, 2, 4, 1, 3, 5}), {in[0], in[2] / p, in[3] / p, inputs});
  x = net.op("matmul", {x, net.reshape(weight, {options.hidden, inputs})}, {{"transpose_b", int64_t{1}}});
  x = net.op("add", {x, net.parameter(name + ".bias", {options.hidden}, init)});
  return net.layer_norm(x, "patch_embed.norm", options.norm_eps);
}

// [n, rows, columns, c] to half the rows and columns, and twice the features.
ValueId merge_patches(Network& net, const ModelOptions& options, ValueId x, const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const Shape in = net.shape(x);
  x = net.reshape(x, {in[0], in[1] / 2, 2, in[2] / 2, 2, in[3]});
  x = net.reshape(transpose(net, x, {0, 1, 3, 4, 2, 5}), {in[0], in[1] / 2, in[2] / 2, 4 * in[3]});
  return linear(net, net.layer_norm(x, name + ".norm", options.norm_eps), name + ".reduction", 2 * in[3],
                Bias::kNone);
}

ModelOptions sizes(ModelOptions options) {
  if (options.patch == 0) options.patch = 4;
  if (options.window == 0) options.window = 7;
  return options;
}

std::vector<std::string> problems(const ModelOptions& options) {
  std::vector<std::string> found = head_problems(options);
  if (options.layers < 2 * kStages)
    found.push_back(
        fmt::format("a swin of model.layers = {} has less than 2 blocks in each of its {} stages; 8 or more "
                    "are needed (12 are Swin-T, 24 Swin-S and Swin-B)",
                    options.layers, kStages));
  return found;
}

ValueId logits(Network& net, const ModelOptions& given, ValueId images) {
  if (const std::vector<std::string> found = problems(given); !found.empty()) throw Error(found[0]);
  const ModelOptions options = sizes(given);
  const Shape in = net.shape(images);
  if (in[2] % options.patch != 0 || in[3] % options.patch != 0)
    throw_error("images of {}x{} do not divide into patches of model.patch = {}", in[2], in[3],
                options.patch);
  ValueId x = embed_patches(net, options, images);
  const std::array<int64_t, kStages> blocks = {2, 2, options.layers - 6, 2};
  for (int64_t stage = 0; stage < kStages; ++stage) {
    const int64_t rows = net.shape(x)[1], columns = net.shape(x)[2];
    const Windows w{rows, columns, std::min({options.window, rows, columns})};
    const bool merges = stage + 1 < kStages;
    if (rows % w.side != 0 || columns % w.side != 0 || (merges && (rows % 2 != 0 || columns % 2 != 0))) {
      throw_error(
          "the {}x{} patches of stage {} do not divide into windows of {} and by two; choose model.patch and "
          "model.window for images of {}x{} (for 32x32: patch 2, window 4)",
          rows, columns, stage + 1, w.side, in[2], in[3]);
    }
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      x = swin_block(net, options, x, fmt::format("layers.{}.blocks.{}", stage, block), w,
                     options.heads << stage, block % 2 == 1 ? Shifted::kYes : Shifted::kNo);
    }
    if (merges) x = merge_patches(net, options, x, fmt::format("layers.{}.downsample", stage));
  }
  const Builder::Scope head = net.scope("head");
  x = net.op("mean", {net.layer_norm(x, "norm", options.norm_eps)}, {{"dims", Ints{1, 2}}});
  return linear(net, x, "head", options.classes, Bias::kZeros, {Side::kInputs});
}

}  // namespace
}  // namespace swin

const ModelRecord& swin_model() {
  using namespace swin;
  static const ModelRecord record{
      .family = "swin",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers", "model.heads", "model.hidden", "model.patch", "model.window",
                          "model.norm_eps"},
      .problems = problems,
      .defaults = {{"model.layers", "12"},
                   {"model.heads", "3"},
                   {"model.hidden", "96"},
                   {"optim.lr", "0.0005"}},
      .with_automatic_sizes = sizes,
      .usual_sample =
          [](const ModelOptions&) {
            return Shape{3, 224, 224};
          },
  };
  return record;
}

}  // namespace trireme
