// Per dim, what two parts have in common is a list of runs; in all dims it is the product of those lists.
#include "trireme/checkpoint/tensor_part.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// Neighbours along one dim, counted within each part.
struct Common {
  int64_t from, to, size;
};

std::vector<Common> common(const std::vector<Part>& from, const std::vector<Part>& to) {
  std::vector<Common> result;
  int64_t before_a = 0;
  for (const Part& a : from) {
    int64_t before_b = 0;
    for (const Part& b : to) {
      const int64_t begin = std::max(a.begin, b.begin), end = std::min(a.end(), b.end());
      if (begin < end)
        result.push_back({before_a + begin - a.begin, before_b + begin - b.begin, end - begin});
      before_b += b.size;
    }
    before_a += a.size;
  }
  return result;
}

}  // namespace

Shape TensorPart::shape() const {
  Shape shape;
  for (const std::vector<Part>& dim : pieces) {
    int64_t extent = 0;
    for (const Part& piece : dim) extent += piece.size;
    shape.push_back(extent);
  }
  return shape;
}

TensorPart all_of(const Shape& whole) {
  TensorPart part{whole, {}};
  for (int64_t extent : whole) part.pieces.push_back({{0, extent}});
  return part;
}

void for_each_common_run(const TensorPart& from, const TensorPart& to, const RunBody& body) {
  TRIREME_CHECK(from.whole == to.whole);
  const Shape from_shape = from.shape(), to_shape = to.shape();
  const int rank = from_shape.rank();
  std::vector<std::vector<Common>> dims;
  for (int d = 0; d < rank; ++d) dims.push_back(common(from.pieces[d], to.pieces[d]));
  // From here on inwards both have all that the other has, so that runs go on from one row to the next.
  int last = rank;
  while (last > 0 && dims[last - 1].size() == 1 && dims[last - 1][0].size == from_shape[last - 1] &&
         dims[last - 1][0].size == to_shape[last - 1])
    --last;
  const int run_dim = std::max(0, last - 1);
  const auto visit = [&](const auto& self, int dim, int64_t from_at, int64_t to_at) -> void {
    if (dim == rank) {  // a scalar
      body(from_at, to_at, 1);
      return;
    }
    const int64_t from_stride = from_shape.elements(dim + 1, rank),
                  to_stride = to_shape.elements(dim + 1, rank);
    for (const Common& run : dims[dim]) {
      if (dim == run_dim) {
        body(from_at + run.from * from_stride, to_at + run.to * to_stride, run.size * from_stride);
        continue;
      }
      for (int64_t i = 0; i < run.size; ++i)
        self(self, dim + 1, from_at + (run.from + i) * from_stride, to_at + (run.to + i) * to_stride);
    }
  };
  visit(visit, 0, 0, 0);
}

int64_t common_elements(const TensorPart& a, const TensorPart& b) {
  TRIREME_CHECK(a.whole == b.whole);
  int64_t elements = 1;
  for (size_t d = 0; d < a.pieces.size(); ++d) {
    int64_t extent = 0;
    for (const Common& run : common(a.pieces[d], b.pieces[d])) extent += run.size;
    elements *= extent;
  }
  return elements;
}

}  // namespace trireme
