// Normalisation over the batch and the image, per channel, with running statistics for inference. The rows
// may be normalised in several groups, each with its own statistics. Where the rows of one group are split,
// the statistics are made in steps: sums over rows, and from these the rest.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

// The rows as (g m): g groups of m.
IndexRule grouped(const OpInstance& op, const WrittenRule& written) {
  const int64_t groups = op.attrs.integer("groups", 1);
  const int64_t rows = op.inputs.empty() || op.shape(0).rank() == 0 ? 0 : op.shape(0)[0];
  if (groups < 1 || rows % groups != 0)
    throw_error("[{}] {} rows do not make {} equal groups", op.op, rows, groups);
  return rule(op, written).size("g", groups).size("m", rows / groups).whole("m s…");
}

void localize_groups(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) {
  if (rule.indices[index].name != "g") return;
  attrs.set("groups", end - begin);
  attrs.set("all_groups", attrs.integer("all_groups", rule.indices[index].extent));
}

double elements_of_channel(Builder& b, ValueId x) {
  return static_cast<double>(b.shape(x).elements()) / static_cast<double>(b.shape(x)[1]);
}

std::vector<ValueId> expand_batch_norm(Builder& b, const std::vector<ValueId>& inputs, const Attrs& attrs,
                                       const std::string& name) {
  const ValueId x = inputs[0];
  if (attrs.integer("groups", 1) != 1 || b.shape(x).elements() == 0)
    return b.node("batch_norm", inputs, attrs, name);
  const double count = elements_of_channel(b, x), momentum = attrs.real("momentum", 0.1);
  const auto part = [&](std::string_view op, std::vector<ValueId> from, Attrs more, std::string_view suffix) {
    return b.op(op, std::move(from), std::move(more), fmt::format("{}.{}", name, suffix));
  };
  const auto scaled = [&](ValueId value, double scale, std::string_view suffix, double shift = 0) {
    return part("affine", {value}, {{"scale", scale}, {"shift", shift}}, suffix);
  };
  const ValueId mean = scaled(part("channel_sum", {x}, {}, "sum"), 1 / count, "mean");
  const ValueId squares = part("channel_squares", {x, mean}, {}, "squares");
  const ValueId var = scaled(squares, 1 / count, "var");
  const ValueId rstd = part("rsqrt", {scaled(var, 1, "var_eps", attrs.real("eps"))}, {}, "rstd");
  const auto moved = [&](ValueId running, ValueId batch, double scale, std::string_view suffix) {
    return part("add",
                {scaled(running, 1 - momentum, fmt::format("kept_{}", suffix)),
                 scaled(batch, momentum * scale, fmt::format("added_{}", suffix))},
                {}, suffix);
  };
  const ValueId new_mean = moved(inputs[3], mean, 1, "new_mean");
  const ValueId new_var = moved(inputs[4], var, count / std::max(1.0, count - 1), "new_var");
  const auto as_one_group = [&](ValueId value, std::string_view suffix) {
    return part("reshape", {value}, {{"shape", std::vector<int64_t>{1, b.shape(value)[0]}}}, suffix);
  };
  const ValueId y =
      b.op("batch_norm_inference", {x, inputs[1], inputs[2], mean, var}, {{"eps", attrs.real("eps")}}, name);
  return {y, as_one_group(mean, "mean_of_group"), as_one_group(rstd, "rstd_of_group"), new_mean, new_var};
}

std::vector<ValueId> expand_grad(Builder& b, const std::vector<ValueId>& inputs, const Attrs& attrs,
                                 const std::string& name) {
  const ValueId dy = inputs[0], x = inputs[1], gain = inputs[2];
  if (attrs.integer("groups", 1) != 1 || b.shape(x).elements() == 0)
    return b.node("batch_norm_grad", inputs, attrs, name);
  const auto as_channels = [&](ValueId value, std::string_view suffix) {
    return b.op("reshape", {value}, {{"shape", std::vector<int64_t>{b.shape(value)[1]}}},
                fmt::format("{}.{}", name, suffix));
  };
  const ValueId mean = as_channels(inputs[3], "mean"), rstd = as_channels(inputs[4], "rstd");
  const std::vector<ValueId> sums = b.node("batch_norm_grad_sums", {dy, x, mean, rstd}, {}, name + ".sums");
  const ValueId dx = b.op("batch_norm_grad_input", {dy, x, gain, mean, rstd, sums[0], sums[1]},
                          {{"count", elements_of_channel(b, x)}}, name);
  const auto in_format = [&](ValueId sum, std::string_view suffix) {
    const DType format = b.type(gain).dtype;
    return format == DType::f32 ? sum
                                : b.op("cast", {sum}, {{"to", std::string(trireme::name(format))}},
                                       fmt::format("{}.{}", name, suffix));
  };
  return {dx, in_format(sums[0], "dgain"), in_format(sums[1], "dbias")};
}

void expect_one_group(const OpInstance& op) {
  if (op.attrs.integer("groups", 1) != 1) throw_error("[{}] groups are for channels first alone", op.op);
}

IndexRule nhwc_rule(const OpInstance& op) {
  expect_one_group(op);
  const std::string_view epilogue = op.attrs.text("epilogue", "none");
  if (epilogue != "none" && epilogue != "relu" && epilogue != "add_relu")
    throw_error("[{}] epilogue '{}' is not known; none, relu or add_relu expected", op.op, epilogue);
  return rule(op, epilogue == "add_relu"
                      ? "x[n y x c] gain[c] bias[c] running_mean[c] running_var[c] more[n y x c] -> "
                        "z[n y x c] mean[g c] rstd[g c] new_mean[c] new_var[c]"_rule
                      : "x[n y x c] gain[c] bias[c] running_mean[c] running_var[c] -> "
                        "z[n y x c] mean[g c] rstd[g c] new_mean[c] new_var[c]"_rule)
      .size("g", 1)
      .whole("n y x g");
}

// Of the three forms with a relu behind the norm: "relu" knows its slope from x and the bias, so that the
// relu's result need not be read; "add_relu", where something was added in between, from that result.
const WrittenRule& nhwc_grad_written(const OpInstance& op) {
  const std::string_view epilogue = op.attrs.text("epilogue", "none");
  if (epilogue == "none")
    return "dz[n y x c] x[n y x c] gain[c] mean[g c] rstd[g c] -> dx[n y x c] dgain[c] dbias[c]"_rule;
  if (epilogue == "relu")
    return "dz[n y x c] x[n y x c] gain[c] mean[g c] rstd[g c] bias[c] -> dx[n y x c] dgain[c] dbias[c]"_rule;
  if (epilogue != "add_relu")
    throw_error("[{}] epilogue '{}' is not known; none, relu or add_relu expected", op.op, epilogue);
  constexpr size_t kInputs = 6;
  if (op.inputs.size() == kInputs)
    return "dz[n y x c] x[n y x c] gain[c] mean[g c] rstd[g c] z[n y x c] -> dx[n y x c] dgain[c] dbias[c] "
           "ds[n y x c]"_rule;
  return "dz[n y x c] x[n y x c] gain[c] mean[g c] rstd[g c] z[n y x c] more[n y x c] -> dx[n y x c] "
         "dgain[c] dbias[c] ds[n y x c]"_rule;
}
IndexRule nhwc_grad_rule(const OpInstance& op) {
  expect_one_group(op);
  const IndexRule result = rule(op, nhwc_grad_written(op)).whole("n y x g");
  if (op.shape(3)[0] != 1)
    throw_error("[{}] statistics of {} groups given, one expected", op.op, op.shape(3)[0]);
  return result;
}

void add_nhwc(OpTable& table) {
  table.add({.name = "batch_norm_nhwc",
             .index = nhwc_rule,
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32, kFormat},
             .outputs = {kFormat, kF32, kF32, kF32, kF32},
             .numbers = {"eps"},
             .gradient = kDeviceOp,
             .flops = flops_per_element<8>});
  table.add({.name = "batch_norm_nhwc_grad",
             .index = nhwc_grad_rule,
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32, kFormat, kFormat},
             .gradient = kDeviceOp,
             .flops = flops_per_element<8>});
}

void add_parts(OpTable& table) {
  table.add({.name = "channel_sum",
             .index = written<"x[n c s…] -> sum[c]">,
             .outputs = {kF32},
             .gradient = kExpandedOp});
  table.add({.name = "channel_squares",
             .index = written<"x[n c s…] mean[c] -> squares[c]">,
             .inputs = {kFormat, kF32},
             .outputs = {kF32},
             .gradient = kExpandedOp});
  table.add({.name = "batch_norm_grad_sums",
             .index = written<"dy[n c s…] x[n c s…] mean[c] rstd[c] -> dgain[c] dbias[c]">,
             .inputs = {kFormat, kFormat, kF32, kF32},
             .outputs = {kF32, kF32},
             .gradient = kExpandedOp,
             .flops = flops_per_element<8>});
  table.add({.name = "batch_norm_grad_input",
             .index = written<"dy[n c s…] x[n c s…] gain[c] mean[c] rstd[c] dgain[c] dbias[c] -> dx[n c s…]">,
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32, kF32, kF32},
             .numbers = {"count"},
             .gradient = kExpandedOp,
             .flops = flops_per_element<8>});
}

}  // namespace

void add_batch_norm(OpTable& table) {
  table.add({.name = "batch_norm",
             .index =
                 [](const OpInstance& op) {
                   return grouped(op,
                                  "x[(g m) c s…] gain[c] bias[c] running_mean[c] running_var[c] -> "
                                  "y[(g m) c s…] mean[g c] rstd[g c] new_mean[c] new_var[c]"_rule);
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
             .outputs = {kFormat, kF32, kF32, kF32, kF32},
             .numbers = {"eps"},
             .gradient =
                 [](GradBuilder& g) {
                   std::vector<ValueId> gradients =
                       g.node("batch_norm_grad", {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)},
                              {{"groups", g.attrs().integer("groups", 1)}});
                   gradients.resize(5, kNoValue);
                   return gradients;
                 },
             .flops = flops_per_element<8>,
             .expand = expand_batch_norm,
             .localize = localize_groups,
             .localizes = OpRecord::Localizes::kExtents,
             .channels_last = {"batch_norm_nhwc"}});
  table.add({.name = "batch_norm_grad",
             .index =
                 [](const OpInstance& op) {
                   return grouped(op,
                                  "dy[(g m) c s…] x[(g m) c s…] gain[c] mean[g c] rstd[g c] -> "
                                  "dx[(g m) c s…] dgain[c] dbias[c]"_rule);
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
             .gradient = kBackwardOp,
             .flops = flops_per_element<8>,
             .expand = expand_grad,
             .localize = localize_groups,
             .localizes = OpRecord::Localizes::kExtents,
             .channels_last = {"batch_norm_nhwc_grad"}});
  table.add({.name = "batch_norm_inference",
             .index = written<"x[n c s…] gain[c] bias[c] mean[c] var[c] -> y[n c s…]">,
             .inputs = {kFormat, kFormat, kFormat, kF32, kF32},
             .numbers = {"eps"},
             .gradient = NotDifferentiable{"used in evaluation only"},
             .flops = flops_per_element<8>});
  add_parts(table);
  add_nhwc(table);
}

}  // namespace trireme
