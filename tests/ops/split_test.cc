// Third way: every index of the op's rule that may be split is split, unevenly, into two and three parts;
// the kernel runs on each part with attributes localized by the record; the results, put together as the rule
// says, must equal the whole run. This is what makes the index rules true, and with them every layout.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/case_runner.h"
#include "trireme/bench/cases/part.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

// Sums over rows take their rows in an order that depends on the number of columns, so that narrow matrices
// use whole vectors too; convolutions with many channels go by Winograd's way, which rounds differently. All
// other kernels give the same bits for an element wherever it lies.
bool order_depends_on_shape(const OpCase& one) {
  return one.op == "sum" || one.op == "mean" || one.op == "conv2d" || one.op == "conv2d_grad_input" ||
         one.op == "conv2d_nhwc" || one.op == "conv2d_nhwc_grad_input";
}

class SplitCase {
 public:
  SplitCase(const OpCase& one, const RefTensors& inputs)
      : one_(one),
        record_(ops().at(one.op)),
        inputs_(inputs),
        input_types_(types_of(inputs)),
        rule_(record_.index({record_.name, input_types_, one.attrs})),
        types_(infer_types(record_, input_types_, one.attrs)),
        whole_(run_kernel(one.op, one.attrs, inputs, types_, /*threads=*/1)) {}

  const IndexRule& rule() const { return rule_; }

  void expect_parts_make_the_whole(int index, const std::vector<IndexRange>& ranges) const {
    RefTensors together;
    for (const TensorType& type : types_) together.push_back(RefTensor::zeros(type.shape, type.dtype));
    for (const IndexRange& range : ranges) add_part(index, range, range.begin == 0, together);
    for (size_t o = 0; o < together.size(); ++o) {
      const bool has_index = IndexRule::dim_of(rule_.outputs[o], index) >= 0;
      const bool exact = (has_index && !order_depends_on_shape(one_)) ||
                         rule_.indices[index].combine == Index::Combine::kMax;
      EXPECT_LE(relative_difference(together[o], whole_[o]), exact ? 0 : 2 * one_.tolerance)
          << "output " << o << " of " << rule_.text(one_.op) << " split along " << rule_.indices[index].name
          << " into " << ranges.size();
    }
  }

 private:
  void add_part(int index, IndexRange range, bool first, RefTensors& together) const {
    RefTensors inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool has_index = IndexRule::dim_of(rule_.inputs[i], index) >= 0;
      inputs.push_back(has_index ? cut_from(inputs_[i], cut_of(rule_, rule_.inputs[i], index, range))
                                 : inputs_[i]);
    }
    Attrs attrs = one_.attrs;
    if (record_.localize) record_.localize(attrs, rule_, index, range.begin, range.end);
    std::vector<TensorType> types = types_;
    for (size_t o = 0; o < types.size(); ++o) {
      if (IndexRule::dim_of(rule_.outputs[o], index) < 0) continue;
      const DimCut cut = cut_of(rule_, rule_.outputs[o], index, range);
      types[o].shape.set(cut.dim, cut.elements());
    }
    ASSERT_EQ(infer_types(record_, types_of(inputs), attrs), types)
        << "along " << rule_.indices[index].name << " from " << range.begin << " to " << range.end;
    const RefTensors part = run_kernel(one_.op, attrs, inputs, types, /*threads=*/1);
    for (size_t o = 0; o < part.size(); ++o)
      combine(part[o], static_cast<int>(o), index, range, first, together[o]);
  }

  void combine(const RefTensor& part, int output, int index, IndexRange range, bool first,
               RefTensor& whole) const {
    const IndexRule::Operand& operand = rule_.outputs[output];
    if (IndexRule::dim_of(operand, index) >= 0) {
      for_each_row(whole.shape, cut_of(rule_, operand, index, range),
                   [&](int64_t to, int64_t from, int64_t count) {
                     std::copy_n(part.values.begin() + from, count, whole.values.begin() + to);
                   });
      return;
    }
    const bool max = rule_.indices[index].combine == Index::Combine::kMax;
    for (size_t i = 0; i < whole.values.size(); ++i) {
      double& value = whole.values[i];
      value = first ? part.values[i] : max ? std::max(value, part.values[i]) : value + part.values[i];
    }
  }

  const OpCase& one_;
  const OpRecord& record_;
  const RefTensors& inputs_;
  std::vector<TensorType> input_types_;
  IndexRule rule_;
  std::vector<TensorType> types_;
  RefTensors whole_;
};

class SplitAgainstWhole : public ::testing::TestWithParam<OpCase> {};

TEST_P(SplitAgainstWhole, EveryIndexThatMayBeSplit) {
  const OpCase& one = GetParam();
  const RefTensors inputs = random_inputs(one, DType::f32, /*seed=*/2);
  const SplitCase split(one, inputs);
  for (int index = 0; index < static_cast<int>(split.rule().indices.size()); ++index) {
    const int64_t extent = split.rule().indices[index].extent;
    if (!split.rule().may_split(index) || extent < 2) continue;
    const int64_t third = std::max<int64_t>(1, extent / 3);
    split.expect_parts_make_the_whole(index, {{0, third}, {third, extent}});
    if (extent > 2) split.expect_parts_make_the_whole(index, {{0, 1}, {1, 1 + third}, {1 + third, extent}});
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, SplitAgainstWhole, ::testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return case_name(tested.param); });

}  // namespace
}  // namespace trireme::testing
