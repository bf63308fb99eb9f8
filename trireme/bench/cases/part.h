// Parts of reference tensors along one index of an op's rule.
#pragma once

#include "trireme/bench/cases/op_case.h"
#include "trireme/ir/index_rule.h"

namespace trireme::bench {

struct IndexRange {
  int64_t begin, end;
};

// A dim as blocks of units, between which lies the index that is cut.
struct DimCut {
  int dim;
  int64_t blocks, unit;
  IndexRange range;  // of the index

  int64_t elements() const { return blocks * (range.end - range.begin) * unit; }
};
DimCut cut_of(const IndexRule& rule, const IndexRule::Operand& operand, int index, IndexRange range);

// Calls copy(row of the whole, row of the part, elements in a row) for the rows that both have in common.
template <typename Copy>
void for_each_row(const Shape& whole, const DimCut& cut, const Copy& copy) {
  const int64_t inner = whole.elements(cut.dim + 1, whole.rank()) * cut.unit,
                size = cut.range.end - cut.range.begin;
  const int64_t extent = whole[cut.dim] / cut.blocks / cut.unit;
  for (int64_t outer = 0; outer < whole.elements(0, cut.dim) * cut.blocks; ++outer)
    copy((outer * extent + cut.range.begin) * inner, outer * size * inner, size * inner);
}

RefTensor cut_from(const RefTensor& whole, const DimCut& cut);

}  // namespace trireme::bench
