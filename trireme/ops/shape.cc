// Ops that move elements and compute nothing.
#include <algorithm>
#include <numeric>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

void expect_inputs(const OpInstance& op, size_t count) {
  if (op.inputs.size() != count)
    throw_error("[{}] {} inputs given, {} expected", op.op, op.inputs.size(), count);
}

int checked_dim(const OpInstance& op) {
  if (op.inputs.empty()) throw_error("[{}] no inputs given", op.op);
  const int64_t dim = op.attrs.integer("dim");
  if (dim < 0 || dim >= op.shape(0).rank())
    throw_error("[{}] dim {} of a tensor {} does not exist", op.op, dim, to_string(op.shape(0)));
  return static_cast<int>(dim);
}

// Groups of dims of both shapes with equal products, as small as they can be. Within a group with one dim on
// a side, that dim is shared by the indices of the other side, major first; other groups stay whole.
IndexRule reshape_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const Shape& from = op.shape(0);
  const Shape to = checked_shape(op, op.attrs.integers("shape"));
  if (from.elements() != to.elements()) {
    throw_error("[reshape] {} has {} elements, but {} has {}", to_string(from), from.elements(),
                to_string(to), to.elements());
  }
  IndexRule result;
  result.inputs.resize(1);
  result.outputs.resize(1);
  const auto add_index = [&](int64_t extent, bool whole) {
    result.indices.push_back({.name = fmt::format("i{}", result.indices.size()), .extent = extent});
    if (whole) result.indices.back().split = Index::Split::kWhole;
    return static_cast<int>(result.indices.size()) - 1;
  };
  int i = 0, j = 0;
  if (from.elements() == 0) {  // there are no equal products to group by, and nothing to split
    for (; i < from.rank(); ++i) result.inputs[0].push_back({add_index(from[i], true)});
    for (; j < to.rank(); ++j) result.outputs[0].push_back({add_index(to[j], true)});
  }
  while (i < from.rank() || j < to.rank()) {
    const int i0 = i, j0 = j;
    int64_t a = i < from.rank() ? from[i++] : 1, b = j < to.rank() ? to[j++] : 1;
    while (a != b) {
      if (a < b && i < from.rank())
        a *= from[i++];
      else if (b < a && j < to.rank())
        b *= to[j++];
      else if (i < from.rank())
        a *= from[i++];
      else
        b *= to[j++];
    }
    const bool merge = j - j0 == 1, divide = i - i0 == 1;
    IndexRule::Dim shared;
    if (merge || divide) {
      const Shape& many = merge ? from : to;
      for (int d = merge ? i0 : j0; d < (merge ? i : j); ++d) shared.push_back(add_index(many[d], false));
      IndexRule::Operand& one_side = merge ? result.outputs[0] : result.inputs[0];
      IndexRule::Operand& many_side = merge ? result.inputs[0] : result.outputs[0];
      one_side.push_back(shared);
      for (int index : shared) many_side.push_back({index});
    } else {
      for (int d = i0; d < i; ++d) result.inputs[0].push_back({add_index(from[d], true)});
      for (int d = j0; d < j; ++d) result.outputs[0].push_back({add_index(to[d], true)});
    }
  }
  return result;
}

void set_output_extent(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) {
  const int dim = IndexRule::dim_of(rule.outputs[0], index);
  if (dim < 0) return;
  std::vector<int64_t> shape = attrs.integers("shape");
  shape[dim] = shape[dim] / rule.indices[index].extent * (end - begin);
  attrs.set("shape", shape);
}

IndexRule transpose_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const std::vector<int64_t>& perm = op.attrs.integers("perm");
  const int rank = op.shape(0).rank();
  std::vector<int64_t> sorted = perm, expected(rank);
  std::ranges::sort(sorted);
  std::iota(expected.begin(), expected.end(), int64_t{0});
  if (sorted != expected)
    throw_error("[transpose] perm is no permutation of the {} dims of {}", rank, to_string(op.shape(0)));
  std::string out;
  for (int64_t d : perm) out += fmt::format(" i{}", d);
  return rule(op, WrittenRule(fmt::format("x[{}] -> y[{}]", index_names(rank), out)));
}

IndexRule broadcast_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const std::vector<int64_t>& dims = op.attrs.integers("dims");
  const Shape shape = checked_shape(op, op.attrs.integers("shape"));
  const int rank = op.shape(0).rank();
  if (static_cast<int>(dims.size()) != rank)
    throw_error("[broadcast] {} dims given for a tensor {}", dims.size(), to_string(op.shape(0)));
  std::vector<std::string> names(shape.rank());
  for (int i = 0; i < rank; ++i) {
    if (dims[i] < 0 || dims[i] >= shape.rank() || (i && dims[i] <= dims[i - 1]))
      throw_error("[broadcast] dims must be ascending and below {}", shape.rank());
    if (shape[static_cast<int>(dims[i])] != op.shape(0)[i]) {
      throw_error("[broadcast] dim {} of {} cannot become dim {} of {}", i, to_string(op.shape(0)), dims[i],
                  to_string(shape));
    }
    names[dims[i]] = fmt::format("i{}", i);
  }
  std::string out;
  for (int d = 0; d < shape.rank(); ++d) {
    if (names[d].empty()) names[d] = fmt::format("n{}", d);
    out += " " + names[d];
  }
  IndexRule result = rule(op, WrittenRule(fmt::format("x[{}] -> y[{}]", index_names(rank), out)));
  for (int d = 0; d < shape.rank(); ++d) {
    if (names[d][0] == 'n') result.size(names[d], shape[d]);
  }
  return result;
}

// The dims of input 0 with `special` in the place of dim `dim`.
std::string names_around(const OpInstance& op, int dim, std::string_view special) {
  std::string text;
  for (int d = 0; d < op.shape(0).rank(); ++d) {
    text += d == dim ? fmt::format(" {}", special) : fmt::format(" i{}", d);
  }
  return text;
}

// All dims but one go through; that one changes its extent and stays whole.
IndexRule resized_rule(const OpInstance& op, int dim, int64_t extent) {
  std::string in;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    in += fmt::format("x{}[{}] ", i, names_around(op, dim, fmt::format("c{}", i)));
  return rule(op, WrittenRule(fmt::format("{}-> y[{}]", in, names_around(op, dim, "c'"))))
      .size("c'", extent)
      .whole("c… c'");
}

IndexRule slice_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const int dim = checked_dim(op);
  const int64_t start = op.attrs.integer("start"), size = op.attrs.integer("size"), extent = op.shape(0)[dim];
  if (start < 0 || size < 0 || start > extent || size > extent - start) {
    throw_error("[slice] {} elements from {} do not lie in dim {} of {}", size, start, dim,
                to_string(op.shape(0)));
  }
  return resized_rule(op, dim, size);
}

// Equal parts are blocks of the dim that holds them all, and may be cut together: q, k and v by heads.
bool all_equal(const std::vector<int64_t>& sizes) {
  return std::ranges::all_of(sizes, [&](int64_t size) { return size == sizes[0]; });
}

IndexRule split_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const int dim = checked_dim(op);
  const std::vector<int64_t>& sizes = op.attrs.integers("sizes");
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > op.shape(0)[dim] - total) {
      throw_error("[split] a part of {} from {} does not lie in dim {} of {}", size, total, dim,
                  to_string(op.shape(0)));
    }
    total += size;
  }
  if (sizes.empty() || total != op.shape(0)[dim]) {
    throw_error("[split] the parts add up to {}, but dim {} of {} is {}", total, dim, to_string(op.shape(0)),
                op.shape(0)[dim]);
  }
  const bool equal = all_equal(sizes);
  std::string out;
  for (size_t i = 0; i < sizes.size(); ++i)
    out += fmt::format(" y{}[{}]", i, names_around(op, dim, equal ? "c" : fmt::format("c{}", i)));
  IndexRule result =
      rule(op, WrittenRule(fmt::format("x[{}] ->{}", names_around(op, dim, equal ? "(s c)" : "c'"), out)));
  if (equal) return result.size("s", static_cast<int64_t>(sizes.size())).size("c", sizes[0]).whole("s");
  for (size_t i = 0; i < sizes.size(); ++i) result.size(fmt::format("c{}", i), sizes[i]);
  return result.whole("c… c'");
}

void localize_split(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) {
  if (rule.indices[index].name == "c")
    attrs.set("sizes", std::vector<int64_t>(attrs.integers("sizes").size(), end - begin));
}

IndexRule concat_rule(const OpInstance& op) {
  const int dim = checked_dim(op);
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (const TensorType& type : op.inputs) {
    if (type.shape.rank() != op.shape(0).rank())
      throw_error("[concat] {} and {} differ in rank", to_string(op.shape(0)), to_string(type.shape));
    sizes.push_back(type.shape[dim]);
    total += type.shape[dim];
    if (total > kMaxElements) throw_error("[concat] the result has more than 2^48 elements");
  }
  if (!all_equal(sizes)) return resized_rule(op, dim, total);
  std::string in;
  for (size_t i = 0; i < sizes.size(); ++i) in += fmt::format("x{}[{}] ", i, names_around(op, dim, "c"));
  return rule(op, WrittenRule(fmt::format("{}-> y[{}]", in, names_around(op, dim, "(s c)"))))
      .size("s", static_cast<int64_t>(sizes.size()))
      .whole("s");
}

IndexRule pad_rule(const OpInstance& op) {
  expect_inputs(op, 1);
  const int dim = checked_dim(op);
  const int64_t low = op.attrs.integer("low"), high = op.attrs.integer("high");
  for (int64_t zeros : {low, high}) {
    if (zeros < 0 || zeros > kMaxElements)
      throw_error("[pad] {} zeros cannot be put before or after {}", zeros, to_string(op.shape(0)));
  }
  return resized_rule(op, dim, op.shape(0)[dim] + low + high);
}

// Along dim 1 of one line, rows give way to others.
IndexRule write_at_rule(const OpInstance& op) {
  expect_inputs(op, 4);
  if (op.shape(0).rank() < 2 || op.shape(1).rank() != op.shape(0).rank() || op.shape(1)[1] > op.shape(0)[1]) {
    throw_error("[write_at] {} can not be written into {}; expected no more rows (dim 1), all else the same",
                to_string(op.shape(1)), to_string(op.shape(0)));
  }
  return rule(op, "x[n s i…] rows[b t i…] line[b] position[b] -> y[n s i…]"_rule).whole("n s b t");
}

using G = GradBuilder;

// All elements, in another order or shape, or many times over.
void add_rearrangements(OpTable& table) {
  table.add({.name = "reshape",
             .index = reshape_rule,
             .gradient =
                 [](G& g) {
                   const Shape& shape = g.shape(g.in(0));
                   return std::vector{g.op("reshape", {g.dy()},
                                           {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}})};
                 },
             .flops = no_flops,
             .memory = OpRecord::Memory::kShared,
             .linear = always_linear,
             .localize = set_output_extent,
             .localizes = OpRecord::Localizes::kExtents});
  table.add({.name = "transpose",
             .index = transpose_rule,
             .gradient =
                 [](G& g) {
                   const std::vector<int64_t>& perm = g.attrs().integers("perm");
                   std::vector<int64_t> inverse(perm.size());
                   for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
                   return std::vector{g.op("transpose", {g.dy()}, {{"perm", inverse}})};
                 },
             .flops = no_flops,
             .linear = always_linear});
  table.add({.name = "broadcast",
             .index = broadcast_rule,
             .gradient =
                 [](G& g) {
                   const std::vector<int64_t>& dims = g.attrs().integers("dims");
                   std::vector<int64_t> added;
                   for (int d = 0; d < g.shape(g.out(0)).rank(); ++d) {
                     if (std::ranges::find(dims, d) == dims.end()) added.push_back(d);
                   }
                   return std::vector{added.empty() ? g.dy() : g.op("sum", {g.dy()}, {{"dims", added}})};
                 },
             .flops = no_flops,
             .linear = always_linear,
             .localize = set_output_extent,
             .localizes = OpRecord::Localizes::kExtents});
}

// Parts of tensors, and tensors of parts.
void add_parts_of_tensors(OpTable& table) {
  table.add({.name = "slice",
             .index = slice_rule,
             .gradient =
                 [](G& g) {
                   const int64_t dim = g.attrs().integer("dim"), low = g.attrs().integer("start");
                   const int64_t high =
                       g.shape(g.in(0))[static_cast<int>(dim)] - low - g.attrs().integer("size");
                   return std::vector{g.op("pad", {g.dy()}, {{"dim", dim}, {"low", low}, {"high", high}})};
                 },
             .flops = no_flops,
             .linear = always_linear});
  table.add({.name = "split",
             .index = split_rule,
             .gradient =
                 [](G& g) {
                   const int64_t dim = g.attrs().integer("dim");
                   const std::vector<int64_t>& sizes = g.attrs().integers("sizes");
                   std::vector<ValueId> parts;
                   for (size_t i = 0; i < sizes.size(); ++i) {
                     const int part = static_cast<int>(i);
                     // A part that the loss does not depend on has a gradient of zeros.
                     parts.push_back(g.dy(part) != kNoValue
                                         ? g.dy(part)
                                         : g.op("affine", {g.out(part)}, {{"scale", 0.0}}));
                   }
                   return std::vector{g.op("concat", parts, {{"dim", dim}})};
                 },
             .differentiable = OpRecord::Results::kAll,
             .flops = no_flops,
             .linear = always_linear,
             .localize = localize_split,
             .localizes = OpRecord::Localizes::kExtents});
  table.add({.name = "concat",
             .index = concat_rule,
             .gradient =
                 [](G& g) {
                   const int64_t dim = g.attrs().integer("dim");
                   std::vector<ValueId> gradients;
                   int64_t start = 0;
                   for (int i = 0; i < g.inputs(); ++i) {
                     const int64_t size = g.shape(g.in(i))[static_cast<int>(dim)];
                     gradients.push_back(g.wants(i) ? g.op("slice", {g.dy()},
                                                           {{"dim", dim}, {"start", start}, {"size", size}})
                                                    : kNoValue);
                     start += size;
                   }
                   return gradients;
                 },
             .flops = no_flops,
             .linear = always_linear});
  table.add({.name = "pad",
             .index = pad_rule,
             .gradient =
                 [](G& g) {
                   const int64_t dim = g.attrs().integer("dim");
                   return std::vector{g.op("slice", {g.dy()},
                                           {{"dim", dim},
                                            {"start", g.attrs().integer("low")},
                                            {"size", g.shape(g.in(0))[static_cast<int>(dim)]}})};
                 },
             .flops = no_flops,
             .linear = always_linear});
  table.add({.name = "write_at",
             .index = write_at_rule,
             .inputs = {DTypeRule::kFormat, DTypeRule::kFormat, DTypeRule::kI32, DTypeRule::kI32},
             .gradient = kGeneratingOp,
             .flops = no_flops,
             .in_place = {{0, 0}}});
}

}  // namespace

void add_shape(OpTable& table) {
  add_rearrangements(table);
  add_parts_of_tensors(table);
}

}  // namespace trireme
