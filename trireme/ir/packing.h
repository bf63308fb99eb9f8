// Several tensors in one collective. Each is cut along one of its dims in a part for each rank of the axis,
// as ops/collective.h says. The parts are packed rank by rank in one tensor [ways, width]: row r has the
// parts of rank r of all tensors one after another, each in a place as large as the largest part of its
// tensor.
//
// Attributes: `shapes` has, of each whole tensor, the number of its dims and then its extents; `dims`, and
// `units` and `blocks` where one of them is not 1, have a number for each tensor.
#pragma once

#include <cstdint>
#include <span>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/base/shape.h"
#include "trireme/ir/attrs.h"

namespace trireme {

struct CutTensor {
  Shape whole;
  int dim = 0;
  int64_t unit = 1, blocks = 1;

  int64_t part_extent(int64_t ways, int64_t way) const {
    return blocks * unit * part_of(whole[dim] / unit / blocks, ways, way).size;
  }
  Shape part(int64_t ways, int64_t way) const {
    Shape shape = whole;
    shape.set(dim, part_extent(ways, way));
    return shape;
  }
  int64_t largest(int64_t ways) const { return part(ways, 0).elements(); }
};

// The attributes of one blocking collective that say how its tensor is cut; packed ones have others instead.
inline constexpr std::string_view kCutAttributes[] = {"dim", "unit", "blocks", "extent"};

void set_packing(Attrs& attrs, std::span<const CutTensor> tensors);

// Calls body(tensor) for each in order, and returns how many there are. Allocates nothing. Throws Error where
// the attributes contradict themselves.
template <typename Body>
size_t for_each_packed(const Attrs& attrs, const Body& body) {
  const std::vector<int64_t>&shapes = attrs.integers("shapes"), &dims = attrs.integers("dims");
  const auto number = [&](const char* name, size_t i) {
    if (!attrs.has(name)) return int64_t{1};
    const std::vector<int64_t>& numbers = attrs.integers(name);
    if (numbers.size() != dims.size())
      throw_error("{} has {} numbers for {} tensors", name, numbers.size(), dims.size());
    return numbers[i];
  };
  size_t at = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    CutTensor tensor{{}, 0, number("units", i), number("blocks", i)};
    const int64_t rank = at < shapes.size() ? shapes[at++] : -1;
    if (rank < 1 || rank > Shape::kMaxDims || at + static_cast<size_t>(rank) > shapes.size())
      throw_error("shapes do not describe {} tensors of 1 to {} dims", dims.size(), Shape::kMaxDims);
    for (const int64_t end = static_cast<int64_t>(at) + rank; static_cast<int64_t>(at) < end; ++at) {
      if (shapes[at] < 0) throw_error("an extent of {} among shapes", shapes[at]);
      tensor.whole.push_back(shapes[at]);
    }
    if (dims[i] < 0 || dims[i] >= rank)
      throw_error("dim {} of a tensor {} does not exist", dims[i], to_string(tensor.whole));
    tensor.dim = static_cast<int>(dims[i]);
    if (tensor.unit < 1 || tensor.blocks < 1 || tensor.whole[tensor.dim] % (tensor.unit * tensor.blocks) != 0)
      throw_error("an extent of {} is no {} blocks of units of {}", tensor.whole[tensor.dim], tensor.blocks,
                  tensor.unit);
    body(tensor);
  }
  if (at != shapes.size()) throw_error("shapes describe more than {} tensors", dims.size());
  return dims.size();
}

}  // namespace trireme
