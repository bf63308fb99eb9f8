// How a dim of a tensor is cut in parts for a collective, and where the parts lie; see ops/collective.h.
#pragma once

#include <string>

#include "trireme/base/dtype.h"
#include "trireme/base/part.h"
#include "trireme/base/shape.h"
#include "trireme/ir/attrs.h"
#include "trireme/ir/packing.h"

namespace trireme {

struct CutDim {
  int64_t rows, extent, unit, inner;  // the tensor as [rows, extent / unit, unit, inner]; rows include blocks
  int64_t ways;
  size_t element_bytes;

  CutDim(const CutTensor& tensor, DType dtype, int64_t in_ways)
      : rows(tensor.whole.elements(0, tensor.dim) * tensor.blocks),
        extent(tensor.whole[tensor.dim] / tensor.blocks),
        unit(tensor.unit),
        inner(tensor.whole.elements(tensor.dim + 1, tensor.whole.rank())),
        ways(in_ways),
        element_bytes(size_of(dtype)) {}
  CutDim(const Shape& whole, DType dtype, const Attrs& attrs, const std::string& prefix)
      : CutDim({whole, static_cast<int>(attrs.integer(prefix + "dim")), attrs.integer(prefix + "unit", 1),
                attrs.integer(prefix + "blocks", 1)},
               dtype, attrs.integer("ways")) {}

  Part part(int64_t way) const {
    const Part own = part_of(units(), ways, way);
    return {own.begin * unit, own.size * unit};
  }
  int64_t elements(int64_t way) const { return rows * part(way).size * inner; }
  int64_t largest() const { return elements(0); }
  // Bytes of the largest part: parts stand so far apart where they stand one after another.
  size_t stride() const { return static_cast<size_t>(largest()) * element_bytes; }
  size_t bytes(int64_t way) const { return static_cast<size_t>(elements(way)) * element_bytes; }
  // Where a part begins where all stand one after another without gaps.
  size_t place(int64_t way) const {
    return static_cast<size_t>(rows * part(way).begin * inner) * element_bytes;
  }
  int64_t units() const { return extent / unit; }
  int64_t unit_elements() const { return rows * unit * inner; }
  // Parts lie one after another in the whole; where they are equal, also as large as the largest.
  bool is_in_order() const { return rows == 1; }
  bool is_contiguous() const { return is_in_order() && units() % ways == 0; }

  // A part in the whole: `rows` runs of `bytes` bytes, the first at `offset`, `pitch` bytes apart.
  struct Runs {
    size_t offset, bytes, pitch, rows;
  };
  Runs runs(int64_t way) const {
    const Part own = part(way);
    const size_t step = static_cast<size_t>(inner) * element_bytes;
    return {static_cast<size_t>(own.begin) * step, static_cast<size_t>(own.size) * step,
            static_cast<size_t>(extent) * step, static_cast<size_t>(rows)};
  }
};

}  // namespace trireme
