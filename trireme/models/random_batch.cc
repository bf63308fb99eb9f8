// See random_batch.h.
#include "trireme/models/random_batch.h"

#include "trireme/base/rng.h"

namespace trireme {
namespace {

HostTensor& add_tensor(Batch& batch, std::string name, DType dtype, const Shape& shape) {
  HostTensor& tensor = batch.tensors.emplace_back(std::move(name), HostTensor{}).second;
  tensor.reset(dtype, shape);
  return tensor;
}

void fill_integers(HostTensor& tensor, RngKey key, int64_t bound) {
  uint64_t i = 0;
  for (int32_t& value : tensor.values<int32_t>())
    value = static_cast<int32_t>(uniform_integer(key, i++, static_cast<uint64_t>(bound)));
}

}  // namespace

Batch random_batch(const ModelOptions& model, const Shape& sample, int64_t rows, uint64_t seed) {
  Batch batch;
  batch.rows = rows;
  Shape full{rows};
  for (int64_t extent : sample) full.push_back(extent);
  if (sample.rank() == 2) {  // a source of any length, and a target
    fill_integers(add_tensor(batch, "source", DType::i32, {rows, sample[0]}), {seed, stream_id("source")},
                  model.vocab);
    HostTensor& lengths = add_tensor(batch, "source_length", DType::i32, Shape{rows});
    fill_integers(lengths, {seed, stream_id("source_length")}, sample[0]);
    for (int32_t& length : lengths.values<int32_t>()) ++length;
    full = {rows, sample[1]};
  }
  if (sample.rank() == 1 || sample.rank() == 2) {
    fill_integers(add_tensor(batch, "ids", DType::i32, full), {seed, stream_id("ids")}, model.vocab);
    fill_integers(add_tensor(batch, "targets", DType::i32, full), {seed, stream_id("targets")}, model.vocab);
    return batch;
  }
  uint64_t i = 0;
  for (float& value : add_tensor(batch, "images", DType::f32, full).values<float>())
    value = normal({seed, stream_id("images")}, i++);
  fill_integers(add_tensor(batch, "labels", DType::i32, Shape{rows}), {seed, stream_id("labels")},
                model.classes);
  return batch;
}

void ignore_some_targets(Batch& batch) {
  std::span<int32_t> targets = batch.tensors.back().second.values<int32_t>();
  for (size_t i = 1; i < targets.size(); i += 5) targets[i] = kIgnoreTarget;
}

}  // namespace trireme
