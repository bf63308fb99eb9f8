// Reference tensors, the list of all cases, and parts of tensors; see op_case.h and part.h.
#include "trireme/bench/cases/op_case.h"

#include <algorithm>

#include "trireme/bench/cases/part.h"

namespace trireme::bench {

namespace {

// Called for every product of some references, so it checks without the cost of TRIREME_CHECK.
int64_t offset(const Shape& shape, std::initializer_list<int64_t> index) {
  const std::span<const int64_t> extents = shape.dims();
  bool inside = index.size() == extents.size();
  int64_t position = 0;
  size_t dim = 0;
  for (int64_t i : index) {
    inside = inside && i < extents[dim];
    position = position * extents[dim++] + i;
  }
  if (!inside) TRIREME_CHECK(false);
  return position;
}

}  // namespace

RefTensor RefTensor::zeros(Shape shape, DType dtype) {
  RefTensor tensor{dtype, shape, {}};
  tensor.values.resize(shape.elements());
  return tensor;
}
double& RefTensor::at(std::initializer_list<int64_t> index) {
  return values[offset(shape, index)];
}
double RefTensor::at(std::initializer_list<int64_t> index) const {
  return values[offset(shape, index)];
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (auto group : {matmul_cases, attention_cases, conv_cases, pool_cases, batch_norm_cases,
                     elementwise_cases, reduce_cases, shape_cases, norm_cases, language_cases, ctc_cases,
                     expert_cases, optimizer_cases, exchange_cases}) {
    for (OpCase& one : group()) cases.push_back(std::move(one));
  }
  return cases;
}

std::string case_name(const OpCase& one) {
  return one.op + "_" + one.label;
}

DimCut cut_of(const IndexRule& rule, const IndexRule::Operand& operand, int index, IndexRange range) {
  DimCut cut{IndexRule::dim_of(operand, index), 1, 1, range};
  bool before = true;
  for (int other : operand[cut.dim]) {
    if (other == index) {
      before = false;
    } else {
      (before ? cut.blocks : cut.unit) *= rule.indices[other].extent;
    }
  }
  return cut;
}

RefTensor cut_from(const RefTensor& whole, const DimCut& cut) {
  Shape shape = whole.shape;
  shape.set(cut.dim, cut.elements());
  RefTensor part = RefTensor::zeros(shape, whole.dtype);
  for_each_row(whole.shape, cut, [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(whole.values.begin() + from, count, part.values.begin() + to);
  });
  return part;
}

}  // namespace trireme::bench
