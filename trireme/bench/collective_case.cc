// See collective_case.h. The root of rooted collectives is rank 0.
#include "trireme/bench/collective_case.h"

#include <fmt/format.h>

#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/with_type.h"
#include "trireme/comm/transport/transport.h"

namespace trireme::bench {
namespace {

using comm::Collective;

// What `rank` gives at this element: repeats after three elements, and differs between neighbours of both
// kinds.
constexpr int64_t kPeriod = 3;
float given(int rank, int64_t element) {
  return static_cast<float>((element + 2 * int64_t{rank}) % kPeriod);
}

std::unique_ptr<comm::Memory> allocate(comm::Context& context, comm::MemoryKind kind, size_t bytes) {
  return kind == comm::MemoryKind::transport ? context.transport().allocate(bytes) : comm::heap_memory(bytes);
}

}  // namespace

CollectiveCase::CollectiveCase(comm::Context& context, comm::Group& group, Collective collective, DType dtype,
                               size_t bytes, comm::MemoryKind memory, size_t segment_bytes)
    : group_(group),
      collective_(collective),
      dtype_(dtype),
      count_(collective == Collective::barrier ? 0 : static_cast<int64_t>(bytes / size_of(dtype))),
      segment_bytes_(segment_bytes),
      memory_(allocate(context, memory, std::max<size_t>(bytes, 64))) {
  if (collective != Collective::all_to_all) return;
  count_ -= count_ % group.size();  // all give and get equal parts
  output_ = allocate(context, memory, std::max<size_t>(bytes, 64));
}

size_t CollectiveCase::bytes() const {
  return static_cast<size_t>(count_) * size_of(dtype_);
}

double CollectiveCase::bus_factor() const {
  const double ranks = group_.size();
  switch (collective_) {
    case Collective::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::broadcast:
    case Collective::reduce:
      return 1;
    default:
      return (ranks - 1) / ranks;
  }
}

void CollectiveCase::fill() {
  with_type(dtype_, [&]<typename T>(T) {
    auto* const data = reinterpret_cast<T*>(memory_->bytes().data());
    for (int64_t i = 0; i < count_; ++i) data[i] = static_cast<T>(given(group_.rank(), i));
  });
}

void CollectiveCase::clear() {
  std::memset(memory_->bytes().data(), 0, memory_->bytes().size());
}

comm::Handle CollectiveCase::start(comm::Algorithm algorithm) {
  void* const data = memory_->bytes().data();
  const comm::CollectiveOptions options{.algorithm = algorithm, .segment_bytes = segment_bytes_};
  switch (collective_) {
    case Collective::all_reduce:
      return group_.all_reduce(data, count_, dtype_, comm::ReduceOp::sum, options);
    case Collective::reduce_scatter:
      return group_.reduce_scatter(data, count_, dtype_, comm::ReduceOp::sum, options);
    case Collective::all_gather:
      return group_.all_gather(data, count_, dtype_, options);
    case Collective::broadcast:
      return group_.broadcast(data, count_, dtype_, 0, options);
    case Collective::reduce:
      return group_.reduce(data, count_, dtype_, comm::ReduceOp::sum, 0, options);
    case Collective::gather:
      return group_.gather(data, count_, dtype_, 0, options);
    case Collective::scatter:
      return group_.scatter(data, count_, dtype_, 0, options);
    case Collective::all_to_all:
      return group_.all_to_all(data, output_->bytes().data(), count_ / group_.size(), dtype_, options);
    case Collective::barrier:
    case Collective::message:
      break;
  }
  return group_.barrier();
}

// Which elements this rank must have, and whose.
CollectiveCase::Result CollectiveCase::result() const {
  const Part whole{0, count_}, own = part_of(count_, group_.size(), group_.rank());
  const Part at_root{0, group_.rank() == 0 ? count_ : 0};
  switch (collective_) {
    case Collective::all_reduce:
      return {whole, From::all};
    case Collective::reduce_scatter:
      return {own, From::all};
    case Collective::reduce:
      return {at_root, From::all};
    case Collective::broadcast:
      return {whole, From::root};
    case Collective::scatter:
      return {own, From::root};
    case Collective::gather:
      return {at_root, From::owner};
    default:
      return {whole, From::owner};
  }
}

std::string CollectiveCase::problem() const {
  const int ranks = group_.size();
  const Result result = this->result();
  std::vector<float> sums(kPeriod);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t i = 0; i < kPeriod; ++i) sums[static_cast<size_t>(i)] += given(rank, i);
  }
  const bool swaps = collective_ == Collective::all_to_all;
  const std::byte* const bytes = (swaps ? output_ : memory_)->bytes().data();
  return with_type(dtype_, [&]<typename T>(T) -> std::string {
    const auto* const data = reinterpret_cast<const T*>(bytes);
    const auto wrong = [&](int64_t i, float expected) {
      return fmt::format("element {} of {} on rank {} is {}, expected {}", i, count_, group_.rank(),
                         static_cast<float>(data[i]), expected);
    };
    if (result.from != From::owner) {
      for (int64_t i = result.elements.begin; i < result.elements.begin + result.elements.size; ++i) {
        const float expected =
            result.from == From::root ? given(0, i) : sums[static_cast<size_t>(i % kPeriod)];
        if (static_cast<float>(data[i]) != expected) return wrong(i, expected);
      }
      return "";
    }
    for (int rank = 0; rank < ranks && result.elements.size > 0; ++rank) {
      const Part part = part_of(count_, ranks, rank);
      // Of an all-to-all, part r of the output is what rank r had for this one.
      const int64_t sent_from = swaps ? part_of(count_, ranks, group_.rank()).begin : part.begin;
      for (int64_t i = 0; i < part.size; ++i) {
        const float expected = given(rank, sent_from + i);
        if (static_cast<float>(data[part.begin + i]) != expected) return wrong(part.begin + i, expected);
      }
    }
    return "";
  });
}

}  // namespace trireme::bench
