// Two-dimensional convolution (cross-correlation, as everyone calls convolution) and its two gradients.
#include "trireme/ir/channels_last.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

struct Window {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
};

Window window(const OpInstance& op) {
  Window w{op.attrs.integers("stride"), op.attrs.integers("padding"), op.attrs.integers("dilation"),
           op.attrs.integer("groups", 1)};
  for (const auto* list : {&w.stride, &w.padding, &w.dilation}) {
    if (list->size() != 2) throw_error("[{}] stride, padding and dilation are two integers each", op.op);
    for (int64_t value : *list) {
      if (value < (list == &w.padding ? 0 : 1) || value > (1 << 20))
        throw_error("[{}] {} is no stride, padding or dilation", op.op, value);
    }
  }
  if (w.groups < 1 || w.groups > (1 << 20))
    throw_error("[{}] groups is {}, 1 to 2^20 expected", op.op, w.groups);
  return w;
}

int64_t output_extent(const OpInstance& op, const Window& w, int axis, int64_t extent, int64_t kernel) {
  for (int64_t size : {extent, kernel}) {  // extents of images and kernels, from shapes and attributes
    if (size < 1 || size > (1 << 30))
      throw_error("[{}] {} is no extent of an image or kernel; 1 to 2^30 expected", op.op, size);
  }
  const int64_t padded = extent + 2 * w.padding[axis], reach = w.dilation[axis] * (kernel - 1) + 1;
  if (padded < reach)
    throw_error("[{}] a kernel that reaches over {} does not fit into {} (padding included)", op.op, reach,
                padded);
  return (padded - reach) / w.stride[axis] + 1;
}

void expect_rank_4(const OpInstance& op, int inputs) {
  if (static_cast<int>(op.inputs.size()) != inputs)
    throw_error("[{}] {} inputs given, {} expected", op.op, op.inputs.size(), inputs);
  for (const TensorType& type : op.inputs) {
    if (type.shape.rank() != 4) throw_error("[{}] {} found, 4 dims expected", op.op, to_string(type));
  }
}

void expect_groups(const OpInstance& op, const Window& w, int64_t channels, int64_t weight_channels,
                   int64_t filters) {
  const bool fits = channels % w.groups == 0 && channels / w.groups == weight_channels;
  if (!fits || filters % w.groups != 0) {
    throw_error("[{}] {} channels in {} groups do not fit weights of {} channels and {} filters", op.op,
                channels, w.groups, weight_channels, filters);
  }
}

// Groups tie channels to filters, so neither may be split on its own.
IndexRule& keep_groups(IndexRule& rule, const Window& w) {
  return w.groups > 1 ? rule.whole("c d o") : rule;
}

IndexRule forward_rule(const OpInstance& op) {
  expect_rank_4(op, 2);
  const Window w = window(op);
  expect_groups(op, w, op.shape(0)[1], op.shape(1)[1], op.shape(1)[0]);
  IndexRule r = rule(op, w.groups == 1 ? "x[n c y x] w[o c i j] -> y[n o y' x']"_rule
                                       : "x[n c y x] w[o d i j] -> y[n o y' x']"_rule);
  r.size("y'", output_extent(op, w, 0, op.shape(0)[2], op.shape(1)[2]))
      .size("x'", output_extent(op, w, 1, op.shape(0)[3], op.shape(1)[3]));
  return keep_groups(r.whole("y x i j y' x'"), w);
}

IndexRule input_rule(const OpInstance& op) {
  expect_rank_4(op, 2);
  const Window w = window(op);
  const std::vector<int64_t>& size = op.attrs.integers("size");
  if (size.size() != 2) throw_error("[{}] size is two integers", op.op);
  if (op.shape(1)[1] > kMaxElements / w.groups || op.shape(1)[0] % w.groups != 0)
    throw_error("[{}] weights {} do not divide into {} groups", op.op, to_string(op.shape(1)), w.groups);
  for (int axis : {0, 1}) {
    const int64_t expected = output_extent(op, w, axis, size[axis], op.shape(1)[2 + axis]);
    if (expected != op.shape(0)[2 + axis])
      throw_error("[{}] dy is {}, but size {} gives {} on axis {}", op.op, to_string(op.shape(0)), size[axis],
                  expected, axis);
  }
  IndexRule r = rule(op, w.groups == 1 ? "dy[n o y' x'] w[o c i j] -> dx[n c y x]"_rule
                                       : "dy[n o y' x'] w[o d i j] -> dx[n c y x]"_rule);
  if (w.groups > 1) r.size("c", op.shape(1)[1] * w.groups);
  r.size("y", size[0]).size("x", size[1]);
  return keep_groups(r.whole("y x i j y' x'"), w);
}

IndexRule weight_rule(const OpInstance& op) {
  expect_rank_4(op, 2);
  const Window w = window(op);
  const std::vector<int64_t>& kernel = op.attrs.integers("kernel");
  if (kernel.size() != 2) throw_error("[{}] kernel is two integers", op.op);
  if (op.shape(1)[1] % w.groups != 0 || op.shape(0)[1] % w.groups != 0) {
    throw_error("[{}] {} channels and {} filters do not divide into {} groups", op.op, op.shape(1)[1],
                op.shape(0)[1], w.groups);
  }
  for (int axis : {0, 1}) {
    const int64_t expected = output_extent(op, w, axis, op.shape(1)[2 + axis], kernel[axis]);
    if (expected != op.shape(0)[2 + axis])
      throw_error("[{}] dy is {}, but a kernel of {} on {} gives {} on axis {}", op.op,
                  to_string(op.shape(0)), kernel[axis], to_string(op.shape(1)), expected, axis);
  }
  IndexRule r = rule(op, w.groups == 1 ? "dy[n o y' x'] x[n c y x] -> dw[o c i j]"_rule
                                       : "dy[n o y' x'] x[n c y x] -> dw[o d i j]"_rule);
  if (w.groups > 1) r.size("d", op.shape(1)[1] / w.groups);
  r.size("i", kernel[0]).size("j", kernel[1]);
  return keep_groups(r.whole("y x i j y' x'"), w);
}

// The same instance with channels first, whose rule knows what fits.
std::vector<TensorType> turned_inputs(const OpInstance& op) {
  expect_rank_4(op, 2);
  if (op.attrs.integer("groups", 1) != 1) throw_error("[{}] groups are for channels first alone", op.op);
  std::vector<TensorType> turned = op.inputs;
  for (TensorType& type : turned) type.shape = channels_first(type.shape);
  return turned;
}

IndexRule nhwc_rule(const OpInstance& op, IndexRule (*first)(const OpInstance&), const WrittenRule& written,
                    const char* rows, const char* columns) {
  const std::vector<TensorType> turned = turned_inputs(op);
  const Shape made = first({op.op, turned, op.attrs}).output_shape(0);
  return rule(op, written).size(rows, made[2]).size(columns, made[3]).whole("y x i j y' x'");
}

IndexRule nhwc_forward_rule(const OpInstance& op) {
  return nhwc_rule(op, forward_rule, "x[n y x c] w[o i j c] -> y[n y' x' o]"_rule, "y'", "x'");
}
IndexRule nhwc_input_rule(const OpInstance& op) {
  return nhwc_rule(op, input_rule, "dy[n y' x' o] w[o i j c] -> dx[n y x c]"_rule, "y", "x");
}
IndexRule nhwc_weight_rule(const OpInstance& op) {
  return nhwc_rule(op, weight_rule, "dy[n y' x' o] x[n y x c] -> dw[o i j c]"_rule, "i", "j");
}

// Multiply-adds: each element of an output meets one filter of one group. In either order of dims all but the
// first of `weights` are a filter's.
double conv_flops(const Shape& outputs, const Shape& weights) {
  return 2.0 * static_cast<double>(outputs.elements()) * static_cast<double>(weights.elements(1, 4));
}
double forward_flops(const OpInstance& op, const IndexRule& r) {
  return conv_flops(r.output_shape(0), op.shape(1));
}
double input_flops(const OpInstance& op, const IndexRule&) {
  return conv_flops(op.shape(0), op.shape(1));
}
double weight_flops(const OpInstance& op, const IndexRule& r) {
  return conv_flops(op.shape(0), r.output_shape(0));
}

}  // namespace

void add_conv2d(OpTable& table) {
  using Last = OpRecord::ChannelsLast;
  table.add({.name = "conv2d",
             .index = forward_rule,
             .gradient =
                 [](GradBuilder& g) {
                   const Shape &x = g.shape(g.in(0)), &w = g.shape(g.in(1));
                   const std::vector<int64_t> size{x[2], x[3]}, kernel{w[2], w[3]};
                   return std::vector{g.wants(0) ? g.op("conv2d_grad_input", {g.dy(), g.in(1)},
                                                        with(g.attrs(), {{"size", size}}))
                                                 : kNoValue,
                                      g.wants(1) ? g.op("conv2d_grad_weight", {g.dy(), g.in(0)},
                                                        with(g.attrs(), {{"kernel", kernel}}))
                                                 : kNoValue};
                 },
             .flops = forward_flops,
             .channels_last = {"conv2d_nhwc", Last::Makes::kImages, Last::When::kAlways}});
  table.add({.name = "conv2d_grad_input",
             .index = input_rule,
             .gradient = kBackwardOp,
             .flops = input_flops,
             .channels_last = {"conv2d_nhwc_grad_input", Last::Makes::kImages, Last::When::kAlways}});
  table.add({.name = "conv2d_grad_weight",
             .index = weight_rule,
             .gradient = kBackwardOp,
             .flops = weight_flops,
             .channels_last = {"conv2d_nhwc_grad_weight", Last::Makes::kWeights, Last::When::kAlways}});
  table.add(
      {.name = "conv2d_nhwc", .index = nhwc_forward_rule, .gradient = kDeviceOp, .flops = forward_flops});
  table.add({.name = "conv2d_nhwc_grad_input",
             .index = nhwc_input_rule,
             .gradient = kDeviceOp,
             .flops = input_flops});
  table.add({.name = "conv2d_nhwc_grad_weight",
             .index = nhwc_weight_rule,
             .gradient = kDeviceOp,
             .flops = weight_flops});
}

}  // namespace trireme
