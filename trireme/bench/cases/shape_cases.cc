// Cases of the ops that move elements: reshape, transpose, broadcast, slice, split, concat, pad.
#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace shape_reference {
namespace {

using Dims = std::vector<int64_t>;

RefTensors reshape(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = like(in[0], Shape(attrs.integers("shape")));
  y.values = in[0].values;
  return {y};
}

RefTensors transpose(const RefTensors& in, const Attrs& attrs) {
  const Dims& perm = attrs.integers("perm");
  Shape shape;
  for (int64_t dim : perm) shape.push_back(in[0].shape[static_cast<int>(dim)]);
  RefTensor y = like(in[0], shape);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims to = unravel(i, shape);
    Dims from(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) from[perm[d]] = to[d];
    y.values[i] = in[0].values[ravel(from, in[0].shape)];
  }
  return {y};
}

RefTensors broadcast(const RefTensors& in, const Attrs& attrs) {
  RefTensor y = like(in[0], Shape(attrs.integers("shape")));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims to = unravel(i, y.shape);
    Dims from;
    for (int64_t dim : attrs.integers("dims")) from.push_back(to[dim]);
    y.values[i] = in[0].values[ravel(from, in[0].shape)];
  }
  return {y};
}

// Copies x into y at the given position along `dim`; elements that fall outside y are left out.
void place(const RefTensor& x, int dim, int64_t position, RefTensor* y) {
  for (size_t i = 0; i < x.values.size(); ++i) {
    Dims index = unravel(i, x.shape);
    index[dim] += position;
    if (index[dim] >= 0 && index[dim] < y->shape[dim]) y->values[ravel(index, y->shape)] = x.values[i];
  }
}
RefTensor with_extent(const RefTensor& x, int dim, int64_t extent) {
  Shape shape = x.shape;
  shape.set(dim, extent);
  return like(x, shape);
}

RefTensors slice(const RefTensors& in, const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.integer("dim"));
  RefTensor y = with_extent(in[0], dim, attrs.integer("size"));
  place(in[0], dim, -attrs.integer("start"), &y);
  return {y};
}
RefTensors split(const RefTensors& in, const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.integer("dim"));
  RefTensors parts;
  int64_t position = 0;
  for (int64_t size : attrs.integers("sizes")) {
    parts.push_back(with_extent(in[0], dim, size));
    place(in[0], dim, -position, &parts.back());
    position += size;
  }
  return parts;
}
RefTensors concat(const RefTensors& in, const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.integer("dim"));
  int64_t extent = 0;
  for (const RefTensor& x : in) extent += x.shape[dim];
  RefTensor y = with_extent(in[0], dim, extent);
  int64_t position = 0;
  for (const RefTensor& x : in) {
    place(x, dim, position, &y);
    position += x.shape[dim];
  }
  return {y};
}
RefTensors pad(const RefTensors& in, const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.integer("dim"));
  RefTensor y = with_extent(in[0], dim, attrs.integer("low") + in[0].shape[dim] + attrs.integer("high"));
  place(in[0], dim, attrs.integer("low"), &y);
  return {y};
}

RefTensors write_at(const RefTensors& in, const Attrs&) {
  RefTensor y = in[0];
  for (size_t i = 0; i < in[1].values.size(); ++i) {
    std::vector<int64_t> index = unravel(static_cast<int64_t>(i), in[1].shape);
    const auto b = static_cast<size_t>(index[0]);
    index[0] = static_cast<int64_t>(in[2].values[b]);
    index[1] += static_cast<int64_t>(in[3].values[b]);
    if (index[1] >= 0 && index[1] < y.shape[1]) y.values[ravel(index, y.shape)] = in[1].values[i];
  }
  return {y};
}

void add_reorderings(std::vector<OpCase>& cases) {
  cases.push_back({"reshape", "flat", {{{3, 5, 7}}}, {{"shape", Dims{105}}}, reshape, 0});
  cases.push_back({"reshape", "heads", {{{2, 5, 12}}}, {{"shape", Dims{2, 5, 3, 4}}}, reshape, 0});
  cases.push_back({"reshape", "rows", {{{4, 5, 6}}}, {{"shape", Dims{20, 6}}}, reshape, 0});
  cases.push_back({"reshape", "crossed", {{{4, 6, 3}}}, {{"shape", Dims{6, 4, 3}}}, reshape, 0});
  cases.push_back({"reshape", "ones", {{{1, 6, 1}}}, {{"shape", Dims{6, 1, 1, 1}}}, reshape, 0});
  cases.push_back({"reshape", "empty", {{{0, 2}}}, {{"shape", Dims{0, 3}}}, reshape, 0});
  cases.push_back({"reshape", "to_scalar", {{{1, 1}}}, {{"shape", Dims{}}}, reshape, 0});
  cases.push_back({"reshape",
                   "integers",
                   {{{3, 5}, DType::i32, -9, 9}},
                   {{"shape", Dims{5, 3}}},
                   reshape,
                   0,
                   Differentiable::kNo});

  const auto transposed = [&](const char* label, CaseInput x, Dims perm) {
    const auto differences = is_float(x.dtype) ? Differentiable::kYes : Differentiable::kNo;
    cases.push_back({"transpose", label, {x}, {{"perm", perm}}, transpose, 0, differences});
  };
  transposed("identity", {{3, 5}}, {0, 1});
  transposed("matrix", {{3, 37}}, {1, 0});
  transposed("tiles", {{70, 45}}, {1, 0});
  transposed("batch", {{3, 5, 7}}, {0, 2, 1});
  transposed("of_weights", {{2, 45, 3, 3}}, {0, 2, 3, 1});
  transposed("of_weights_back", {{2, 3, 3, 64}}, {0, 3, 1, 2});
  transposed("heads", {{2, 5, 3, 7}}, {0, 2, 1, 3});
  transposed("windows", {{2, 3, 2, 4, 16}}, {0, 2, 1, 3, 4});
  transposed("to_the_front", {{2, 3, 40, 16}}, {3, 0, 2, 1});
  transposed("rotated", {{2, 3, 4, 5}}, {3, 0, 1, 2});
  transposed("reversed", {{2, 3, 4, 5}}, {3, 2, 1, 0});
  transposed("extent_one", {{2, 1, 5}}, {2, 1, 0});
  transposed("bytes", {{9, 40}, DType::u8, 0, 256}, {1, 0});
  transposed("longs", {{9, 40}, DType::i64, -9, 9}, {1, 0});

  const auto broadcasted = [&](const char* label, Shape x, Dims shape, Dims dims) {
    cases.push_back({"broadcast", label, {{x}}, {{"shape", shape}, {"dims", dims}}, broadcast, 0});
  };
  broadcasted("scalar", {}, {3, 5}, {});
  broadcasted("scalar_to_scalar", {}, {}, {});
  broadcasted("rows", {7}, {3, 5, 7}, {2});
  broadcasted("columns", {3}, {3, 5, 7}, {0});
  broadcasted("middle", {5}, {3, 5, 7}, {1});
  broadcasted("outer_and_inner", {3, 7}, {3, 5, 7}, {0, 2});
  broadcasted("same", {3, 5}, {3, 5}, {0, 1});
}

void add_pieces(std::vector<OpCase>& cases) {
  const auto sliced = [&](const char* label, CaseInput x, int64_t dim, int64_t start, int64_t size) {
    const auto differences = is_float(x.dtype) ? Differentiable::kYes : Differentiable::kNo;
    cases.push_back(
        {"slice", label, {x}, {{"dim", dim}, {"start", start}, {"size", size}}, slice, 0, differences});
  };
  sliced("first_dim", {{5, 7}}, 0, 1, 3);
  sliced("last_dim", {{5, 7}}, 1, 2, 4);
  sliced("middle_dim", {{3, 5, 7}}, 1, 4, 1);
  sliced("whole", {{3, 5}}, 0, 0, 3);
  sliced("ids", {{3, 9}, DType::i32, 0, 99}, 1, 1, 8);

  const auto parted = [&](const char* label, CaseInput x, int64_t dim, Dims sizes) {
    const auto differences = is_float(x.dtype) ? Differentiable::kYes : Differentiable::kNo;
    cases.push_back({"split", label, {x}, {{"dim", dim}, {"sizes", sizes}}, split, 0, differences});
  };
  parted("first_dim", {{5, 7}}, 0, {2, 3});
  parted("last_dim", {{5, 7}}, 1, {1, 4, 2});
  parted("middle_dim", {{3, 6, 7}}, 1, {2, 2, 2});
  parted("one_part", {{3, 5}}, 1, {5});
  parted("empty_part", {{3, 5}}, 1, {2, 0, 3});
  parted("ids", {{3, 9}, DType::i32, 0, 99}, 1, {4, 5});
  parted("many", {{2, 40, 3}}, 1, Dims(40, 1));

  cases.push_back({"concat", "first_dim", {{{2, 7}}, {{3, 7}}}, {{"dim", int64_t{0}}}, concat, 0});
  cases.push_back({"concat", "last_dim", {{{3, 2}}, {{3, 5}}, {{3, 1}}}, {{"dim", int64_t{1}}}, concat, 0});
  cases.push_back({"concat", "single", {{{3, 2}}}, {{"dim", int64_t{1}}}, concat, 0});
  cases.push_back(
      {"concat", "many", std::vector<CaseInput>(40, {{2, 1, 3}}), {{"dim", int64_t{1}}}, concat, 0});

  const auto padded = [&](const char* label, int64_t dim, int64_t low, int64_t high) {
    cases.push_back({"pad", label, {{{3, 5, 7}}}, {{"dim", dim}, {"low", low}, {"high", high}}, pad, 0});
  };
  padded("first_dim", 0, 1, 2);
  padded("middle_dim", 1, 0, 3);
  padded("last_dim", 2, 2, 0);
  padded("nothing", 1, 0, 0);

  // Into a line that is drawn; with `more` at a position up to so much behind. Draws are far enough apart
  // that no two rows meet.
  const auto written = [&](const char* label, Shape x, Shape rows, double position, double more = 0) {
    const int64_t b = rows[0];
    cases.push_back(
        {"write_at",
         label,
         {{x}, {rows}, ids({b}, 0, static_cast<double>(x[0])), ids({b}, position, position + more + 1)},
         {},
         write_at,
         0});
  };
  written("first", {1, 9, 2, 8}, {1, 1, 2, 8}, 0);
  written("middle", {2, 9, 3, 5}, {1, 1, 3, 5}, 4);
  written("several", {2, 300, 70}, {1, 7, 70}, 200);
  written("lines", {9, 500, 3}, {4, 2, 3}, 0, 450);
  written("all", {1, 4, 3}, {1, 4, 3}, 0);
  written("over_the_end", {2, 9, 3}, {1, 4, 3}, 7);
  written("before_the_start", {2, 9, 3}, {1, 4, 3}, -2);
  written("outside", {1, 5, 3}, {1, 2, 3}, 5);
}

}  // namespace
}  // namespace shape_reference

std::vector<OpCase> shape_cases() {
  using namespace shape_reference;
  std::vector<OpCase> cases;
  add_reorderings(cases);
  add_pieces(cases);
  return cases;
}

}  // namespace trireme::bench
