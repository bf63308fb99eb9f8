// What a record writes the ring form of its op with (OpRecord::ring): the op's node on one rank, the parts
// that ranks along the axis have of what travels, and a builder. In step i a rank has the part of the rank i
// before it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/part.h"
#include "trireme/ir/builder.h"

namespace trireme {

class RingBuilder {
 public:
  // The ring, and how the dim is cut that is split over it: in `blocks`, each cut in units as part_of() says.
  struct Place {
    std::string axis;
    int64_t ways, coordinate;
    int64_t to, from;  // ranks of the mesh
    int64_t extent, unit, blocks;
  };

  // `inputs` are the node's; of what travels, this rank's part. `name` is that of its first result, `formats`
  // are those of all.
  RingBuilder(Builder& builder, Place place, std::vector<ValueId> inputs, Attrs attrs, std::string name,
              std::vector<DType> formats)
      : b_(builder),
        place_(std::move(place)),
        inputs_(std::move(inputs)),
        attrs_(std::move(attrs)),
        name_(std::move(name)),
        formats_(std::move(formats)) {}

  ValueId in(int i) const { return inputs_.at(i); }
  const Attrs& attrs() const { return attrs_; }
  int64_t ranks() const { return place_.ways; }
  int64_t rank_before(int64_t steps) const {
    return (place_.coordinate + place_.ways - steps % place_.ways) % place_.ways;
  }

  // What a rank along the axis has: `pieces` runs, each beginning `stride` after the one before.
  struct Cut {
    int64_t begin, pieces, stride;
  };
  Cut part_of_rank(int64_t rank) const {
    const int64_t block = place_.extent / place_.blocks;
    return {part_of(block / place_.unit, place_.ways, rank).begin * place_.unit, place_.blocks, block};
  }

  // What is made is named after the op's first result.
  std::vector<ValueId> node(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                            std::string_view what) {
    return b_.node(op, std::move(inputs), std::move(attrs), name_ + "." + std::string(what));
  }
  // What the rank before has of it.
  ValueId shifted(ValueId x, std::string_view what) {
    return node("shift", {x},
                {{"axis", place_.axis},
                 {"ways", place_.ways},
                 {"coordinate", place_.coordinate},
                 {"to", place_.to},
                 {"from", place_.from}},
                what)[0];
  }
  // Parts are put together in f32, and results have the op's format in the end.
  ValueId result(int output, ValueId x) {
    const DType to = formats_.at(output);
    if (b_.type(x).dtype == to) return x;
    return node("cast", {x}, {{"to", std::string(trireme::name(to))}}, "result")[0];
  }

 private:
  Builder& b_;
  Place place_;
  std::vector<ValueId> inputs_;
  Attrs attrs_;
  std::string name_;
  std::vector<DType> formats_;
};

}  // namespace trireme
