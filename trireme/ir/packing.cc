// See packing.h.
#include "trireme/ir/packing.h"

#include <algorithm>

namespace trireme {

void set_packing(Attrs& attrs, std::span<const CutTensor> tensors) {
  std::vector<int64_t> shapes, dims, units, blocks;
  for (const CutTensor& tensor : tensors) {
    shapes.push_back(tensor.whole.rank());
    shapes.insert(shapes.end(), tensor.whole.begin(), tensor.whole.end());
    dims.push_back(tensor.dim);
    units.push_back(tensor.unit);
    blocks.push_back(tensor.blocks);
  }
  const auto is_one = [](int64_t number) { return number == 1; };
  attrs.set("dims", std::move(dims));
  if (!std::ranges::all_of(units, is_one)) attrs.set("units", std::move(units));
  if (!std::ranges::all_of(blocks, is_one)) attrs.set("blocks", std::move(blocks));
  attrs.set("shapes", std::move(shapes));
}

}  // namespace trireme
