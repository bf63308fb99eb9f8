// Maximum and average over windows of an image.
#include "trireme/ir/channels_last.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

std::vector<int64_t> pair(const OpInstance& op, std::string_view name, int64_t least) {
  const std::vector<int64_t>& values = op.attrs.integers(name);
  if (values.size() != 2 || values[0] < least || values[1] < least || values[0] > (1 << 20) ||
      values[1] > (1 << 20)) {
    throw_error("[{}] {} is two integers of at least {}", op.op, name, least);
  }
  return values;
}

int64_t output_extent(const OpInstance& op, int64_t extent, int axis) {
  const int64_t kernel = pair(op, "kernel", 1)[axis], stride = pair(op, "stride", 1)[axis],
                padding = pair(op, "padding", 0)[axis];
  if (2 * padding > kernel)
    throw_error("[{}] padding {} is more than half of kernel {}", op.op, padding, kernel);
  if (extent + 2 * padding < kernel)
    throw_error("[{}] kernel {} does not fit into {} (padding included)", op.op, kernel,
                extent + 2 * padding);
  return (extent + 2 * padding - kernel) / stride + 1;
}

// dy, the first input, must be as large as the pool of an image of y × x is.
void expect_outputs_of(const OpInstance& op, int64_t y, int64_t x) {
  const int64_t expected[] = {output_extent(op, y, 0), output_extent(op, x, 1)};
  if (op.shape(0)[2] != expected[0] || op.shape(0)[3] != expected[1]) {
    throw_error("[{}] dy is {}, but an image of {} by {} gives {} by {}", op.op, to_string(op.shape(0)), y, x,
                expected[0], expected[1]);
  }
}

IndexRule pool_rule(const OpInstance& op) {
  IndexRule r = rule(op, "x[n c y x] -> y[n c y' x']"_rule);
  r.size("y'", output_extent(op, op.shape(0)[2], 0)).size("x'", output_extent(op, op.shape(0)[3], 1));
  return r.whole("y x y' x'");
}

IndexRule pool_nhwc_rule(const OpInstance& op) {
  IndexRule r = rule(op, "x[n y x c] -> y[n y' x' c]"_rule);
  r.size("y'", output_extent(op, op.shape(0)[1], 0)).size("x'", output_extent(op, op.shape(0)[2], 1));
  return r.whole("y x y' x'");
}

IndexRule pool_nhwc_grad_rule(const OpInstance& op) {
  IndexRule r = rule(op, "dy[n y' x' c] x[n y x c] y[n y' x' c] -> dx[n y x c]"_rule);
  std::vector<TensorType> turned = op.inputs;
  for (TensorType& type : turned) type.shape = channels_first(type.shape);
  const OpInstance first{op.op, turned, op.attrs};
  expect_outputs_of(first, first.shape(1)[2], first.shape(1)[3]);
  return r.whole("y x y' x'");
}

}  // namespace

void add_pool2d(OpTable& table) {
  using G = GradBuilder;
  table.add({.name = "max_pool2d",
             .index = pool_rule,
             .gradient =
                 [](G& g) {
                   return std::vector{g.op("max_pool2d_grad", {g.dy(), g.in(0), g.out(0)}, g.attrs())};
                 },
             .channels_last = {"max_pool2d_nhwc"}});
  table.add({.name = "max_pool2d_grad",
             .index =
                 [](const OpInstance& op) {
                   IndexRule r = rule(op, "dy[n c y' x'] x[n c y x] y[n c y' x'] -> dx[n c y x]"_rule);
                   expect_outputs_of(op, op.shape(1)[2], op.shape(1)[3]);
                   return r.whole("y x y' x'");
                 },
             .gradient = kBackwardOp,
             .channels_last = {"max_pool2d_nhwc_grad"}});
  table.add({.name = "max_pool2d_nhwc", .index = pool_nhwc_rule, .gradient = kDeviceOp});
  table.add({.name = "max_pool2d_nhwc_grad", .index = pool_nhwc_grad_rule, .gradient = kDeviceOp});
  table.add({.name = "avg_pool2d", .index = pool_rule, .gradient = [](G& g) {
               const Shape& x = g.shape(g.in(0));
               return std::vector{g.op("avg_pool2d_grad", {g.dy()},
                                       with(g.attrs(), {{"size", std::vector<int64_t>{x[2], x[3]}}}))};
             }});
  table.add({.name = "avg_pool2d_grad",
             .index =
                 [](const OpInstance& op) {
                   IndexRule r = rule(op, "dy[n c y' x'] -> dx[n c y x]"_rule);
                   const std::vector<int64_t> size = pair(op, "size", 1);
                   expect_outputs_of(op, size[0], size[1]);
                   return r.size("y", size[0]).size("x", size[1]).whole("y x y' x'");
                 },
             .gradient = kBackwardOp});
}

}  // namespace trireme
