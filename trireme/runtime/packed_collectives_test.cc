// Collectives of several tensors that are packed in one, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/context.h"
#include "trireme/ir/packing.h"
#include "trireme/kernels/kernel.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

constexpr int kRanks = 3;

// Even and uneven parts, along the first dim and along others, in units and in blocks.
const std::vector<CutTensor> kTensors = {{{6, 2}, 0},    {{7, 2}, 0},           {{2, 6}, 1},
                                         {{3, 4, 5}, 1}, {{2, 18, 2}, 1, 3, 2}, {{12}, 0, 2},
                                         {{1}, 0},       {{4, 30}, 1, 5, 1}};

float value(int rank, size_t tensor, size_t element) {
  return static_cast<float>(1000 * (rank + 1) + 100 * static_cast<int>(tensor) + static_cast<int>(element));
}

class Rank {
 public:
  explicit Rank(comm::Context& context)
      : communicator_(Mesh({{"data", kRanks}}), context),
        rank_(context.rank()),
        attrs_{{"axis", "data"}, {"ways", int64_t{kRanks}}, {"coordinate", int64_t{rank_}}} {}

  using Tensors = std::vector<std::vector<float>>;

  // What `start` and `wait` make of tensors that are packed together.
  Tensors packed(const char* start, const char* wait, Tensors given, const std::vector<Shape>& given_shapes,
                 const std::vector<Shape>& made_shapes) {
    Attrs attrs = attrs_;
    attrs.set("reduction", "sum");
    set_packing(attrs, kTensors);
    int64_t width = 0;
    for (const CutTensor& tensor : kTensors) width += tensor.largest(kRanks);
    Tensors packed{std::vector<float>(static_cast<size_t>(kRanks * width))}, made;
    for (const Shape& shape : made_shapes) made.emplace_back(static_cast<size_t>(shape.elements()), -1.0F);
    run(start, attrs, given, given_shapes, packed, {{kRanks, width}});
    run(wait, attrs, packed, {{kRanks, width}}, made, made_shapes);
    return made;
  }

  // The same of one tensor, by the op that waits for itself.
  std::vector<float> reduce_scatter(const CutTensor& tensor, std::vector<float> given) {
    Attrs attrs = attrs_;
    attrs.set("reduction", "sum");
    attrs.set("dim", int64_t{tensor.dim});
    attrs.set("unit", tensor.unit);
    attrs.set("blocks", tensor.blocks);
    const Shape part = tensor.part(kRanks, rank_);
    Tensors in{std::move(given)}, made{std::vector<float>(static_cast<size_t>(part.elements()))};
    run("reduce_scatter", attrs, in, {tensor.whole}, made, {part});
    return made[0];
  }

 private:
  static std::vector<TensorView> views(Tensors& tensors, const std::vector<Shape>& shapes) {
    std::vector<TensorView> result;
    for (size_t i = 0; i < tensors.size(); ++i) result.push_back({tensors[i].data(), DType::f32, shapes[i]});
    return result;
  }
  void run(const char* op, const Attrs& attrs, Tensors& in, const std::vector<Shape>& in_shapes, Tensors& out,
           const std::vector<Shape>& out_shapes) {
    const std::vector<TensorView> inputs = views(in, in_shapes), outputs = views(out, out_shapes);
    std::vector<std::byte> workspace(1 << 16);
    cpu_kernels()
        .find(op, DType::f32)
        ->launch({inputs, outputs, attrs, device_, workspace.data(), &communicator_});
  }

  MeshCommunicator communicator_;
  int rank_;
  Attrs attrs_;
  DeviceContext device_;
};

TEST(PackedCollectives, ScatterAndGatherEachTensorAsItIsCut) {
  comm::run_rank_threads(kRanks, [](comm::Context& context) {
    Rank rank(context);
    Rank::Tensors given, sums;
    std::vector<Shape> wholes, parts;
    for (size_t t = 0; t < kTensors.size(); ++t) {
      wholes.push_back(kTensors[t].whole);
      parts.push_back(kTensors[t].part(kRanks, context.rank()));
      auto& own = given.emplace_back();
      auto& sum = sums.emplace_back();
      for (size_t e = 0; e < static_cast<size_t>(wholes[t].elements()); ++e) {
        own.push_back(value(context.rank(), t, e));
        sum.push_back(value(0, t, e) + value(1, t, e) + value(2, t, e));
      }
    }
    const Rank::Tensors scattered =
        rank.packed("reduce_scatter_start", "reduce_scatter_wait", given, wholes, parts);
    for (size_t t = 0; t < kTensors.size(); ++t)
      EXPECT_EQ(scattered[t], rank.reduce_scatter(kTensors[t], given[t])) << "tensor " << t;
    EXPECT_EQ(rank.packed("all_gather_packed_start", "all_gather_packed_wait", scattered, parts, wholes),
              sums);
  });
}

}  // namespace
}  // namespace trireme
