// Reference tensors and the list of all cases.
#include "tests/ops/op_case.h"

namespace trireme::testing {

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
  for (auto group :
       {matmul_cases, attention_cases, conv_cases, pool_cases, batch_norm_cases, elementwise_cases,
        reduce_cases, shape_cases, norm_cases, language_cases, optimizer_cases, exchange_cases}) {
    for (OpCase& one : group()) cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<OpCase> correctness_cases() {
  std::vector<OpCase> cases = all_cases();
  std::erase_if(cases, [](const OpCase& one) { return one.use == OpCase::Use::kTiming; });
  return cases;
}

std::string case_name(const OpCase& one) {
  return one.op + "_" + one.label;
}

}  // namespace trireme::testing
