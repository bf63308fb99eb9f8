// What kernels of collectives share: how a dim of a tensor is cut in parts, and where parts lie.
#pragma once

#include <cstring>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/kernels/communicator.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

// One dim of a whole tensor, cut in parts; see ops/collective.cc.
struct CutDim {
  int64_t rows, extent, unit, inner;  // the tensor as [rows, extent / unit, unit, inner]; rows include blocks
  int64_t ways;
  size_t element_bytes;

  CutDim(const Shape& whole, DType dtype, const Attrs& attrs, const std::string& prefix) {
    const int dim = static_cast<int>(attrs.integer(prefix + "dim"));
    const int64_t blocks = attrs.integer(prefix + "blocks", 1);
    rows = whole.elements(0, dim) * blocks;
    extent = whole[dim] / blocks;
    unit = attrs.integer(prefix + "unit", 1);
    inner = whole.elements(dim + 1, whole.rank());
    ways = attrs.integer("ways");
    element_bytes = size_of(dtype);
  }

  Part part(int64_t way) const {
    const Part units = part_of(extent / unit, ways, way);
    return {units.begin * unit, units.size * unit};
  }
  int64_t elements(int64_t way) const { return rows * part(way).size * inner; }
  int64_t largest() const { return elements(0); }
  // Parts are equal and lie one after another in the whole.
  bool is_contiguous() const { return rows == 1 && extent / unit % ways == 0; }

  void pack(const std::byte* whole, int64_t way, std::byte* part_data) const {
    each_row(way, [&](size_t in_whole, size_t in_part, size_t bytes) {
      std::memcpy(part_data + in_part, whole + in_whole, bytes);
    });
  }
  // All parts one after another, each as large as the largest.
  void pack_all(const std::byte* whole, std::byte* parts) const {
    const size_t stride = static_cast<size_t>(largest()) * element_bytes;
    for (int64_t way = 0; way < ways; ++way) {
      const size_t used = static_cast<size_t>(elements(way)) * element_bytes;
      pack(whole, way, parts + way * stride);
      std::memset(parts + way * stride + used, 0, stride - used);
    }
  }
  void unpack(const std::byte* part_data, int64_t way, std::byte* whole) const {
    each_row(way, [&](size_t in_whole, size_t in_part, size_t bytes) {
      std::memcpy(whole + in_whole, part_data + in_part, bytes);
    });
  }

 private:
  template <typename Copy>
  void each_row(int64_t way, const Copy& copy) const {
    const Part own = part(way);
    const size_t bytes = static_cast<size_t>(own.size * inner) * element_bytes;
    for (int64_t row = 0; row < rows; ++row) {
      const size_t in_whole = static_cast<size_t>((row * extent + own.begin) * inner) * element_bytes;
      copy(in_whole, static_cast<size_t>(row) * bytes, bytes);
    }
  }
};

inline Communicator& communicator_of(const KernelContext& context) {
  TRIREME_CHECK(context.communicator != nullptr);
  return *context.communicator;
}

inline Communicator::Reduction reduction_of(const Attrs& attrs) {
  return attrs.text("reduction") == "max" ? Communicator::Reduction::kMax : Communicator::Reduction::kSum;
}

inline std::byte* bytes_of(const TensorView& view) {
  return static_cast<std::byte*>(view.data);
}

}  // namespace trireme::cpu
