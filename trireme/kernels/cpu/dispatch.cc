// dispatch and combine: rows of tokens to slots of experts and back. The slots of one expert in one group are
// one task, which looks through the group's choices in order; so are the tokens of a group in combine. All
// additions are in that order, whatever the threads.
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

namespace trireme::cpu {
namespace slot_rows {
namespace {

// Where a slot's row is in d [e g c m]; −1 for one of no expert here.
class Places {
 public:
  Places(const Shape& d, const Attrs& attrs)
      : experts_(d[0]), groups_(d[1]), capacity_(d[2]), offset_(attrs.integer("expert_offset", 0)) {}

  int64_t row(int64_t group, int32_t at) const {
    const int64_t expert = at < 0 ? -1 : at / std::max<int64_t>(1, capacity_) - offset_;
    if (expert < 0 || expert >= experts_) return -1;
    return (expert * groups_ + group) * capacity_ + at % capacity_;
  }

 private:
  int64_t experts_, groups_, capacity_, offset_;
};

void add_row(float* to, const float* from, float weight, int64_t width) {
  for (int64_t i = 0; i < width; ++i) to[i] += weight * from[i];
}

void dispatch(const KernelContext& context) {
  const Shape &x = context.inputs[0].shape, &d = context.outputs[0].shape;
  const int64_t choices = context.inputs[1].shape[2], width = x[2], in_group = x[1] * choices;
  const Places places(d, context.attrs);
  const float* const w = context.inputs.size() == 3 ? context.in<float>(2) : nullptr;
  float* const out = context.out<float>(0);
  const int64_t slots = d[2];
  pool_of(context).parallel_for(d[0] * d[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task % d[1], first = task * slots;
      std::fill_n(out + first * width, slots * width, 0.0f);
      const int32_t* at = context.in<int32_t>(1) + group * in_group;
      for (int64_t i = 0; i < in_group; ++i) {
        const int64_t row = places.row(group, at[i]);
        if (row < first || row >= first + slots) continue;
        const int64_t token = group * x[1] + i / choices;
        add_row(out + row * width, context.in<float>(0) + token * width, w ? w[group * in_group + i] : 1.0f,
                width);
      }
    }
  });
}

// One behind the last slot that has a token.
void slots_used(const KernelContext& context) {
  const Shape &at = context.inputs[0].shape, &used = context.outputs[0].shape;
  const int64_t in_group = at[1] * at[2], experts = used[0], groups = used[1];
  const int64_t capacity = context.attrs.integer("capacity"),
                offset = context.attrs.integer("expert_offset", 0);
  int32_t* const out = context.out<int32_t>(0);
  pool_of(context).parallel_for(groups, row_grain(in_group + experts), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t e = 0; e < experts; ++e) out[e * groups + group] = 0;
      const int32_t* const slots = context.in<int32_t>(0) + group * in_group;
      for (int64_t i = 0; i < in_group; ++i) {
        const int64_t expert = slots[i] < 0 || capacity == 0 ? -1 : slots[i] / capacity - offset;
        if (expert < 0 || expert >= experts) continue;
        int32_t& count = out[expert * groups + group];
        count = std::max(count, static_cast<int32_t>(slots[i] % capacity) + 1);
      }
    }
  });
}

void combine(const KernelContext& context) {
  const Shape &d = context.inputs[0].shape, &y = context.outputs[0].shape;
  const int64_t choices = context.inputs[1].shape[2], width = y[2];
  const Places places(d, context.attrs);
  const float* const w = context.inputs.size() == 3 ? context.in<float>(2) : nullptr;
  pool_of(context).parallel_for(y[0] * y[1], row_grain(width * choices), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      float* const to = context.out<float>(0) + token * width;
      std::fill_n(to, width, 0.0f);
      for (int64_t n = token * choices; n < (token + 1) * choices; ++n) {
        const int64_t row = places.row(token / y[1], context.in<int32_t>(1)[n]);
        if (row >= 0) add_row(to, context.in<float>(0) + row * width, w ? w[n] : 1.0f, width);
      }
    }
  });
}

void slot_products(const KernelContext& context) {
  const Shape &x = context.inputs[0].shape, &d = context.inputs[1].shape;
  const int64_t choices = context.outputs[0].shape[2], width = x[2];
  const Places places(d, context.attrs);
  pool_of(context).parallel_for(x[0] * x[1], row_grain(width * choices), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float* const from = context.in<float>(0) + token * width;
      for (int64_t n = token * choices; n < (token + 1) * choices; ++n) {
        const int64_t row = places.row(token / x[1], context.in<int32_t>(2)[n]);
        double sum = 0;
        for (int64_t i = 0; row >= 0 && i < width; ++i)
          sum += static_cast<double>(from[i]) * static_cast<double>(context.in<float>(1)[row * width + i]);
        context.out<float>(0)[n] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace
}  // namespace slot_rows

void add_dispatch(KernelTable& table) {
  using namespace slot_rows;
  table.add("dispatch", DType::f32, {dispatch});
  table.add("combine", DType::f32, {combine});
  for (const DType dtype : {DType::i32, DType::f32})  // of programs, and for the completeness of the table
    table.add("slots_used", dtype, {slots_used});
  table.add("slot_products", DType::f32, {slot_products});
}

}  // namespace trireme::cpu
