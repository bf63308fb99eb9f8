// Checks of what text says, and shapes with a dim more.
#include "trireme/ir/pieces.h"

#include "trireme/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kMostStride = int64_t{1} << 48;

Shape with_two(const Shape& shape, int dim, int64_t outer, int64_t inner) {
  Shape result = shape.slice(0, dim);
  result.push_back(outer);
  result.push_back(inner);
  for (int d = dim + 1; d < shape.rank(); ++d) result.push_back(shape[d]);
  return result;
}

void check_equal(const OpInstance& op, int64_t count, int64_t pieces, int64_t stride) {
  if (pieces < 1 || count % pieces != 0 || stride < count / pieces || stride < 1 || stride > kMostStride)
    throw_error("[{}] {} elements are no {} equal pieces, each {} after the one before", op.op, count, pieces,
                stride);
}

}  // namespace

void check_key_pieces(const OpInstance& op, int64_t keys) {
  if (!has_key_pieces(op.attrs)) return;
  check_equal(op, keys, op.attrs.integer("key_pieces"), op.attrs.integer("key_stride"));
  const int64_t first = op.attrs.integer("key_offset"), query = op.attrs.integer("offset");
  if (first < 0 || first > kMostStride || query < 0 || query > kMostStride)
    throw_error("[{}] keys from position {} on and queries from {} on", op.op, first, query);
}

void check_pieces(const OpInstance& op, int dim) {
  if (!has_pieces(op.attrs)) return;
  const int64_t along = op.attrs.integer("pieces_dim"), pieces = op.attrs.integer("pieces"),
                stride = op.attrs.integer("stride");
  const Shape& shape = op.shape(0);
  const bool there = along >= 0 && along < shape.rank() && (dim < 0 || along == dim);
  if (!there || shape.rank() == Shape::kMaxDims)
    throw_error("[{}] pieces along dim {} of {}; {} expected", op.op, along, to_string(shape),
                dim < 0 ? "a dim of it, of seven at most," : fmt::format("dim {}", dim));
  check_equal(op, shape[static_cast<int>(along)], pieces, stride);
}

void refuse_pieces(const Attrs& attrs) {
  if (has_pieces(attrs))
    throw_error(
        "{} pieces of a sequence found; this device's kernel takes one run of it, as the preset context gives "
        "it, and a layout without blocks",
        attrs.integer("pieces"));
}

Shape part_in_pieces(const Shape& part, const Attrs& attrs) {
  if (!has_pieces(attrs)) return part;
  const int dim = static_cast<int>(attrs.integer("pieces_dim"));
  const int64_t pieces = attrs.integer("pieces");
  return with_two(part, dim, pieces, part[dim] / pieces);
}

Shape whole_in_pieces(const Shape& whole, const Attrs& attrs) {
  if (!has_pieces(attrs)) return whole;
  const int dim = static_cast<int>(attrs.integer("pieces_dim"));
  const int64_t stride = attrs.integer("stride");
  return with_two(whole, dim, whole[dim] / stride, stride);
}

}  // namespace trireme
