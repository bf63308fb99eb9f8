// Results against the reference, part by part; see kernel_case.h.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/bench/cases/part.h"
#include "trireme/bench/kernel_case.h"

namespace trireme::bench {
namespace {

constexpr double kMostFlops = 1e7;  // of a reference
enum class End { kFirst, kLast };

RefTensor as_reference(const TensorView& view) {
  RefTensor tensor = RefTensor::zeros(view.shape, view.dtype);
  const auto copy = [&](const auto* data) { std::copy_n(data, view.elements(), tensor.values.begin()); };
  if (view.dtype == DType::i32)
    copy(view.as<int32_t>());
  else
    copy(view.as<float>());
  return tensor;
}

// Of the operands of a run, the part that is compared: some of every index that all results have.
class Compared {
 public:
  Compared(const KernelCase& test, const KernelRun& run, End end)
      : run_(run), attrs_(test.attrs), end_(end), rule_(rule_of(run)), keeps_(sizes_that_fit()) {}

  bool is_all() const { return std::ranges::equal(keeps_, rule_.indices, {}, {}, &Index::extent); }

  RefTensors inputs() { return parts_of(run_.inputs(), &IndexRule::inputs); }
  RefTensors outputs() { return parts_of(run_.outputs(), &IndexRule::outputs); }
  Attrs attrs() const {
    Attrs attrs = attrs_;
    for (int i = 0; i < std::ssize(keeps_); ++i) {
      const IndexRange range = range_of(i);
      if (run_.op().localize && keeps_[i] != rule_.indices[i].extent)
        run_.op().localize(attrs, rule_, i, range.begin, range.end);
    }
    return attrs;
  }

 private:
  static IndexRule rule_of(const KernelRun& run) {
    return run.op().index({run.op().name, run.input_types(), run.attrs()});
  }

  IndexRange range_of(int index) const {
    const int64_t extent = rule_.indices[index].extent, kept = keeps_[index];
    return end_ == End::kFirst ? IndexRange{0, kept} : IndexRange{extent - kept, extent};
  }

  bool may_cut(int index) const {
    return rule_.may_split(index) && std::ranges::all_of(rule_.outputs, [&](const auto& operand) {
             return IndexRule::dim_of(operand, index) >= 0;
           });
  }

  // Halves the longest index until the reference is quick.
  std::vector<int64_t> sizes_that_fit() const {
    std::vector<int64_t> keeps;
    for (const Index& index : rule_.indices) keeps.push_back(index.extent);
    double flops = std::max(run_.cost().flops, run_.cost().bytes);
    while (flops > kMostFlops) {
      int longest = -1;
      for (int i = 0; i < std::ssize(keeps); ++i) {
        if (may_cut(i) && keeps[i] > 1 && (longest < 0 || keeps[i] > keeps[longest])) longest = i;
      }
      if (longest < 0) break;
      const int64_t half = (keeps[longest] + 1) / 2;
      flops *= static_cast<double>(half) / static_cast<double>(keeps[longest]);
      keeps[longest] = half;
    }
    return keeps;
  }

  RefTensors parts_of(const std::vector<TensorView>& views,
                      std::vector<IndexRule::Operand> IndexRule::*operands) const {
    RefTensors parts;
    for (size_t v = 0; v < views.size(); ++v) {
      RefTensor part = as_reference(views[v]);
      IndexRule rule = rule_;  // of what is left
      for (int i = 0; i < std::ssize(keeps_); ++i) {
        const IndexRule::Operand& operand = (rule_.*operands)[v];
        if (keeps_[i] == rule_.indices[i].extent || IndexRule::dim_of(operand, i) < 0) continue;
        part = cut_from(part, cut_of(rule, operand, i, range_of(i)));
        rule.indices[i].extent = keeps_[i];
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  const KernelRun& run_;
  const Attrs& attrs_;
  const End end_;
  const IndexRule rule_;
  const std::vector<int64_t> keeps_;  // of each index
};

// Of the largest in a result: many roundings of f32 in sums of thousands, far below any wrong term; in 16
// bits, some roundings of what is kept between the parts of an op, and that of the result.
double tolerance_of(const KernelCase& test, DType format) {
  return format == DType::f32 ? test.tolerance : format == DType::bf16 ? 2e-2 : 3e-3;
}

}  // namespace

void check_results(const KernelCase& test, const KernelRun& run, DType format) {
  for (const End end : {End::kFirst, End::kLast}) {
    Compared compared(test, run, end);
    const RefTensors expected = test.reference(compared.inputs(), compared.attrs()),
                     found = compared.outputs();
    for (size_t o = 0; o < expected.size(); ++o) {
      double largest = 0;
      for (const double value : expected[o].values) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < expected[o].values.size(); ++i) {
        const double right = expected[o].values[i];
        if (std::abs(found[o].values[i] - right) <= tolerance_of(test, format) * largest) continue;
        throw_error(
            "{}: element {} of {} part of result {} is {}, but double precision says {}; nothing was timed",
            test.name(), i, end == End::kFirst ? "the first" : "the last", o, found[o].values[i], right);
      }
    }
    if (compared.is_all()) return;
  }
}

}  // namespace trireme::bench
