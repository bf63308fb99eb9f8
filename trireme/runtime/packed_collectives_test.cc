// Collectives of parts of tensors, of one or of several that are packed in one, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "trireme/comm/context.h"
#include "trireme/ir/packing.h"
#include "trireme/kernels/cut_dim.h"
#include "trireme/kernels/kernel.h"
#include "trireme/ops/table.h"
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
      : communicator_(Mesh({{"data", kRanks}}), context, comm::Algorithm::ring),
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
  std::vector<float> reduce_scatter(const CutTensor& tensor, const std::vector<float>& given) {
    return of_one("reduce_scatter", tensor, given, tensor.whole, tensor.part(kRanks, rank_));
  }
  std::vector<float> all_gather(const CutTensor& tensor, const std::vector<float>& given) {
    return of_one("all_gather", tensor, given, tensor.part(kRanks, rank_), tensor.whole);
  }
  // From parts along the dim of `from` to parts along that of `to`, of a tensor of one shape.
  std::vector<float> all_to_all(const CutTensor& from, const CutTensor& to, const std::vector<float>& given) {
    Attrs attrs = attrs_;
    attrs.set("to_dim", int64_t{to.dim});
    attrs.set("to_unit", to.unit);
    attrs.set("to_blocks", to.blocks);
    attrs.set("extent", from.whole[from.dim]);
    return of_one("all_to_all", from, given, from.part(kRanks, rank_), to.part(kRanks, rank_), attrs);
  }

  // Bytes that this rank sent in the last op, and those that its record promises.
  uint64_t sent() { return communicator_.take_bytes(); }
  double promised() const { return promised_; }

 private:
  std::vector<float> of_one(const char* op, const CutTensor& cut, std::vector<float> given,
                            const Shape& given_shape, const Shape& made_shape) {
    return of_one(op, cut, std::move(given), given_shape, made_shape, attrs_);
  }
  std::vector<float> of_one(const char* op, const CutTensor& cut, std::vector<float> given,
                            const Shape& given_shape, const Shape& made_shape, Attrs attrs) {
    attrs.set("reduction", "sum");
    attrs.set("dim", int64_t{cut.dim});
    attrs.set("unit", cut.unit);
    attrs.set("blocks", cut.blocks);
    Tensors in{std::move(given)}, made{std::vector<float>(static_cast<size_t>(made_shape.elements()))};
    run(op, attrs, in, {given_shape}, made, {made_shape});
    promised_ = bytes_sent(ops().at(op), {{DType::f32, given_shape}}, {{DType::f32, made_shape}}, attrs);
    return made[0];
  }
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
  double promised_ = 0;
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

// What belongs to a rank of a whole tensor whose elements are `whole`.
std::vector<float> part_of_tensor(const CutTensor& cut, int rank, const std::vector<float>& whole) {
  const CutDim dim(cut, DType::f32, kRanks);
  const CutDim::Runs runs = dim.runs(rank);
  std::vector<float> part;
  for (size_t row = 0; row < runs.rows; ++row) {
    const auto begin = whole.begin() + static_cast<ptrdiff_t>((runs.offset + row * runs.pitch) / 4);
    part.insert(part.end(), begin, begin + static_cast<ptrdiff_t>(runs.bytes / 4));
  }
  return part;
}

// Uneven parts are sent as they are, not filled up to the largest: all ranks together send what the record
// says, and of an all_to_all each of them does.
TEST(Collectives, SendTheBytesOfUnevenParts) {
  struct Case {
    CutTensor from, to;
  };
  const std::vector<Case> cases = {{{{7, 4}, 0}, {{7, 4}, 1}},
                                   {{{5, 2, 8}, 2, 2}, {{5, 2, 8}, 0}},
                                   {{{4, 30}, 1, 3, 2}, {{4, 30}, 0}},
                                   {{{2, 7}, 0}, {{2, 7}, 1}},
                                   {{{7, 2}, 0}, {{7, 2}, 1}}};
  double sent = 0, promised = 0;
  std::mutex mutex;
  const auto count = [&](Rank& rank) {
    const auto bytes = static_cast<double>(rank.sent());
    const std::lock_guard lock(mutex);
    sent += bytes;
    promised += rank.promised();
    return bytes;
  };
  comm::run_rank_threads(kRanks, [&](comm::Context& context) {
    Rank rank(context);
    const int own = context.rank();
    for (const auto& [from, to] : cases) {
      std::vector<float> whole(static_cast<size_t>(from.whole.elements()));
      std::iota(whole.begin(), whole.end(), 1.0F);
      std::vector<float> sum = whole;
      for (float& value : sum) value *= kRanks;
      EXPECT_EQ(rank.reduce_scatter(from, whole), part_of_tensor(from, own, sum));
      count(rank);
      EXPECT_EQ(rank.all_gather(from, part_of_tensor(from, own, whole)), whole);
      count(rank);
      EXPECT_EQ(rank.all_to_all(from, to, part_of_tensor(from, own, whole)), part_of_tensor(to, own, whole));
      EXPECT_EQ(count(rank), rank.promised());
    }
  });
  EXPECT_NEAR(sent, promised, 0.5);
}

}  // namespace
}  // namespace trireme
