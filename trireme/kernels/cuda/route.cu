// The router of a mixture of experts, by the formulas of cpu/route.cc: choices by score, slots by order, and
// the losses that keep experts evenly used. A warp has a token's row of logits, whose scores it computes
// again wherever it needs them: rows are short and stay in the cache.
#include <cfloat>

#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/random.cuh"

namespace trireme::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

unsigned blocks_of_warps(int64_t warps) {
  return blocks(ceil_div(warps, kWarps));
}
__device__ __forceinline__ int64_t warp_number() {
  return int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
}
__device__ __forceinline__ int lane() {
  return threadIdx.x % 32;
}

// The sum of value(0) to value(count − 1); all lanes get it.
template <typename Value>
__device__ __forceinline__ auto warp_sum(int count, const Value& value) {
  decltype(value(0)) sum = 0;
  for (int i = lane(); i < count; i += 32) sum += value(i);
  return warp_reduce(sum, Add());
}

__device__ __forceinline__ float not_zero(float divisor) {  // sigmoids may all be 0; a NaN stays
  return divisor < FLT_MIN ? FLT_MIN : divisor;
}

struct RouterShape {
  int experts, k;
  bool sigmoid, normalise;
  float scale;
  int groups, top_groups;

  RouterShape(const Attrs& attrs, int64_t number_of_experts, int64_t choices)
      : experts(static_cast<int>(number_of_experts)),
        k(static_cast<int>(choices)),
        sigmoid(attrs.text("scores", "softmax") == "sigmoid"),
        normalise(attrs.integer("normalise", 0) != 0),
        scale(static_cast<float>(attrs.real("scale", 1))),
        groups(static_cast<int>(attrs.integer("expert_groups", 1))),
        top_groups(static_cast<int>(attrs.integer("top_groups", 1))) {}
};

// A row of logits in terms of scores, of which each is a share of their total.
struct Scores {
  const float* z;
  int experts;
  bool sigmoid;
  float largest = -INFINITY, total = 0;

  __device__ Scores(const float* logits, int count, bool sigmoids)
      : z(logits), experts(count), sigmoid(sigmoids) {
    for (int e = lane(); e < experts; e += 32) largest = Max()(largest, z[e]);
    largest = warp_reduce(largest, Max());
    total = not_zero(warp_sum(experts, *this));
  }
  __device__ float operator()(int e) const { return sigmoid ? 1 / (1 + expf(-z[e])) : expf(z[e] - largest); }
  __device__ float log_sum_exp() const {
    return largest + logf(warp_sum(experts, [&](int e) { return expf(z[e] - largest); }));
  }
  // What the scores of the chosen, which add up to this, are divided by.
  __device__ float divisor(const RouterShape& shape, float chosen) const {
    return shape.normalise ? not_zero(chosen) : sigmoid ? 1.0f : total;
  }
};

// Candidates in the order in which they are chosen: by value, the first of equal ones. What is no number
// comes last, so that there are always as many.
struct Candidate {
  float value;
  int index;
  __device__ Candidate(float v, int i) : value(isnan(v) ? -INFINITY : v), index(i) {}
  __device__ bool before(const Candidate& other) const {
    return value > other.value || (value == other.value && index < other.index);
  }
};
__device__ Candidate before_all() {
  return {INFINITY, -1};
}

// The next one behind `last`.
template <typename Value, typename Left>
__device__ Candidate next_best(const Candidate& last, int count, const Value& value, const Left& left) {
  Candidate best(-INFINITY, INT_MAX);
  for (int i = lane(); i < count; i += 32) {
    const Candidate one(value(i), i);
    if (left(i) && last.before(one) && one.before(best)) best = one;
  }
  for (int step = 16; step > 0; step /= 2) {
    const Candidate other(__shfl_xor_sync(~0u, best.value, step), __shfl_xor_sync(~0u, best.index, step));
    if (other.before(best)) best = other;
  }
  return best;
}

// worths: a number for each group of experts of a row, if there are several.
__global__ void route_kernel(const float* z, const float* bias, float* w, int32_t* id, float* worths,
                             int64_t rows, RouterShape shape) {
  const int64_t row = warp_number();
  if (row >= rows) return;
  const Scores scores(z + row * shape.experts, shape.experts, shape.sigmoid);
  w += row * shape.k;
  id += row * shape.k;
  // Scores keep the order of logits, whose ties are fewer.
  const bool by_logits = !bias && shape.groups == 1;
  const auto key = [&](int e) {
    if (by_logits) return scores.z[e];
    return scores(e) / (shape.sigmoid ? 1 : scores.total) + (bias ? bias[e] : 0);
  };
  const int size = shape.experts / shape.groups;
  const float* const worth = worths + row * shape.groups;
  Candidate last_group = before_all();
  if (shape.groups > 1) {
    for (int g = lane(); g < shape.groups; g += 32) {
      float first = -INFINITY, second = -INFINITY;
      for (int e = g * size; e < (g + 1) * size; ++e) {
        const float one = key(e);
        second = fmaxf(second, fminf(first, one));
        first = fmaxf(first, one);
      }
      worths[row * shape.groups + g] = size > 1 ? first + second : first;
    }
    __syncwarp();
    const auto worth_of = [&](int g) { return worth[g]; };
    for (int n = 0; n < shape.top_groups; ++n)
      last_group = next_best(last_group, shape.groups, worth_of, [](int) { return true; });
  }
  const auto in_top_group = [&](int e) {
    return shape.groups == 1 || !last_group.before(Candidate(worth[e / size], e / size));
  };
  float chosen = 0;
  Candidate last = before_all();
  for (int n = 0; n < shape.k; ++n) {
    last = next_best(last, shape.experts, key, in_top_group);
    const float score = scores(last.index);
    chosen += score;
    if (lane() == 0) {
      id[n] = last.index;
      w[n] = score;
    }
  }
  const float divisor = scores.divisor(shape, chosen);
  __syncwarp();
  for (int n = lane(); n < shape.k; n += 32) w[n] = w[n] / divisor * shape.scale;
}

void route(const KernelContext& context) {
  const TensorView &z = context.inputs[0], &w = context.outputs[0];
  if (z.elements() == 0) return;
  const int64_t rows = z.elements() / z.shape.back();
  route_kernel<<<blocks_of_warps(rows), kThreads, 0, stream_of(context)>>>(
      in<float>(context, 0), context.inputs.size() == 2 ? in<float>(context, 1) : nullptr,
      out<float>(context, 0), out<int32_t>(context, 1), reinterpret_cast<float*>(context.workspace), rows,
      RouterShape(context.attrs, z.shape.back(), w.shape.back()));
}

size_t route_workspace(const KernelShape& shape) {
  const Shape& z = shape.inputs[0].shape;
  const int64_t groups = shape.attrs.integer("expert_groups", 1);
  return groups == 1 ? 0 : static_cast<size_t>(z.elements(0, z.rank() - 1) * groups) * sizeof(float);
}

__global__ void route_grad_kernel(const float* dw, const float* z, const int32_t* id, float* dz, int64_t rows,
                                  RouterShape shape) {
  const int64_t row = warp_number();
  if (row >= rows) return;
  const Scores scores(z + row * shape.experts, shape.experts, shape.sigmoid);
  dw += row * shape.k;
  id += row * shape.k;
  const auto of_chosen_scores = [&](const auto& each) {
    float sum = 0;
    for (int n = 0; n < shape.k; ++n) {
      if (id[n] >= 0 && id[n] < shape.experts) sum += each(n, scores(id[n]));
    }
    return sum;
  };
  const float divisor = scores.divisor(shape, of_chosen_scores([](int, float score) { return score; }));
  // A weight is score/divisor. Where the divisor is made of scores, all of them pull it the other way.
  const float mean = of_chosen_scores([&](int n, float score) { return score / divisor * dw[n]; });
  const float of_chosen = shape.normalise ? mean : 0, of_all = shape.normalise || shape.sigmoid ? 0 : mean;
  for (int e = lane(); e < shape.experts; e += 32) {
    float sum = -of_all;
    for (int n = 0; n < shape.k; ++n) {
      if (id[n] == e) sum += dw[n] - of_chosen;
    }
    const float score = scores(e), slope = shape.sigmoid ? score * (1 - score) : score;
    dz[row * shape.experts + e] = sum * (shape.scale * slope / divisor);
  }
}

void route_grad(const KernelContext& context) {
  const TensorView &dw = context.inputs[0], &z = context.inputs[1];
  if (z.elements() == 0) return;
  const int64_t rows = z.elements() / z.shape.back();
  route_grad_kernel<<<blocks_of_warps(rows), kThreads, 0, stream_of(context)>>>(
      in<float>(context, 0), in<float>(context, 1), in<int32_t>(context, 2), out<float>(context, 0), rows,
      RouterShape(context.attrs, z.shape.back(), dw.shape.back()));
}

// How choices of a group ask for slots.
struct Queue {
  int tokens, k, experts, capacity;
  bool by_choice;
  const float* w;      // with these weights choices but the first are drawn; null: all ask
  const int64_t* rng;  // (seed, step)
  uint64_t stream;
  int64_t offset;

  explicit Queue(const KernelContext& context)
      : tokens(static_cast<int>(context.inputs[0].shape[1])),
        k(static_cast<int>(context.inputs[0].shape[2])),
        experts(static_cast<int>(context.outputs[2].shape[0])),
        capacity(static_cast<int>(context.attrs.integer("capacity"))),
        by_choice(context.attrs.text("order", "token") == "choice"),
        w(context.inputs.size() == 3 ? in<float>(context, 1) : nullptr),
        rng(w ? in<int64_t>(context, 2) : nullptr),
        stream(static_cast<uint64_t>(context.attrs.integer("stream", 0))),
        offset(context.attrs.integer("offset", 0)) {}
  // The choice whose turn is the n-th.
  __device__ int choice_at(int n) const { return by_choice ? n % tokens * k + n / tokens : n; }
  // Whether a choice, counted in all groups, asks.
  __device__ bool asks(int64_t choice) const {
    if (!w || choice % k == 0) return true;
    const uint64_t step_stream = stream + static_cast<uint64_t>(rng[1]) * 0x9E3779B97F4A7C15u;
    const double u = uniform_at(static_cast<uint64_t>(rng[0]), step_stream, offset + choice);
    return static_cast<float>(u) < 2 * w[choice];
  }
};

// A warp for each expert in each group: it looks through all choices of the group in order, so that no
// result depends on timing. The first expert's also answers choices of no expert.
__global__ void slots_kernel(const int32_t* id, int32_t* at, int32_t* count, int32_t* asked, int64_t groups,
                             Queue queue) {
  const int64_t task = warp_number();
  if (task >= groups * queue.experts) return;
  const int64_t group = task / queue.experts;
  const int expert = static_cast<int>(task % queue.experts), in_group = queue.tokens * queue.k;
  const int64_t first = group * in_group;
  int32_t* const counts = count + group * queue.k * queue.experts + expert;
  for (int choice = lane(); choice < queue.k; choice += 32) counts[int64_t{choice} * queue.experts] = 0;
  __syncwarp();
  int used = 0;
  for (int begin = 0; begin < in_group; begin += 32) {
    const int n = begin + lane();
    int i = 0;
    bool asks = false;
    if (n < in_group) {
      i = queue.choice_at(n);
      const int32_t wanted = id[first + i];
      asks = wanted == expert && queue.asks(first + i);
      const bool of_none = expert == 0 && (wanted < 0 || wanted >= queue.experts);
      if (of_none || (wanted == expert && !asks)) at[first + i] = -1;
    }
    const unsigned all = __ballot_sync(~0u, asks);
    if (asks) {
      const int slot = used + __popc(all & ((1u << lane()) - 1));
      at[first + i] = slot < queue.capacity ? expert * queue.capacity + slot : -1;
      atomicAdd(&counts[int64_t{i % queue.k} * queue.experts], 1);
    }
    used += __popc(all);
  }
  if (lane() == 0) asked[task] = used;
}

// One block.
__global__ void slot_totals(const int32_t* asked, float* load, float* dropped, int64_t groups, int experts,
                            int capacity) {
  int64_t without = 0;
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    int64_t sum = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int32_t here = asked[g * experts + e];
      sum += here;
      without += max(0, here - capacity);
    }
    load[e] = static_cast<float>(sum);
  }
  without = block_sum(without);
  if (threadIdx.x == 0) *dropped = static_cast<float>(without);
}

void slots(const KernelContext& context) {
  const Shape& id = context.inputs[0].shape;
  TRIREME_CHECK(id[1] * id[2] <= INT32_MAX - 32);
  const Queue queue(context);
  int32_t* const asked = reinterpret_cast<int32_t*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  if (id[0] > 0)
    slots_kernel<<<blocks_of_warps(id[0] * queue.experts), kThreads, 0, stream>>>(
        in<int32_t>(context, 0), out<int32_t>(context, 0), out<int32_t>(context, 1), asked, id[0], queue);
  slot_totals<<<1, kThreads, 0, stream>>>(asked, out<float>(context, 2), out<float>(context, 3), id[0],
                                          queue.experts, queue.capacity);
}

size_t slots_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.inputs[0].shape[0] * shape.outputs[2].shape[0]) * sizeof(int32_t);
}

// What the loss and its gradient know of all groups.
struct Balance {
  int64_t groups, tokens;
  int experts, k, choices;
  bool sigmoid;
  double unit, z_weight;
  const float* z;
  const int32_t* count;

  // `first`: the input that z is; count comes behind it.
  Balance(const KernelContext& context, int first)
      : groups(context.inputs[first].shape[0]),
        tokens(context.inputs[first].shape[1]),
        experts(static_cast<int>(context.inputs[first].shape[2])),
        k(static_cast<int>(context.inputs[first + 1].shape[1])),
        choices(static_cast<int>(context.attrs.integer("choices", k))),
        sigmoid(context.attrs.text("scores", "softmax") == "sigmoid"),
        unit(context.attrs.real("alpha") * static_cast<double>(experts) /
             static_cast<double>(choices * tokens)),
        z_weight(context.attrs.real("z")),
        z(in<float>(context, first)),
        count(in<int32_t>(context, first + 1)) {}
  __device__ Scores scores(int64_t row) const { return {z + row * experts, experts, sigmoid}; }
  // α·E·f_e: f_e the share of the group's choices that are expert e.
  __device__ float slope(int64_t group, int e) const {
    double sum = 0;
    for (int choice = 0; choice < choices; ++choice) sum += count[(group * k + choice) * experts + e];
    return static_cast<float>(unit * sum);
  }
};

// What a token's scores come to.
struct RowTotals {
  float largest, total, lse;
};

__global__ void balance_rows(Balance b, RowTotals* totals) {
  const int64_t row = warp_number();
  if (row >= b.groups * b.tokens) return;
  const Scores scores = b.scores(row);
  const float lse = scores.log_sum_exp();
  if (lane() == 0) totals[row] = {scores.largest, scores.total, lse};
}

// A warp for each expert in each group.
__global__ void balance_importances(Balance b, const RowTotals* totals, double* importances) {
  const int64_t task = warp_number();
  if (task >= b.groups * b.experts) return;
  const int64_t first = task / b.experts * b.tokens;
  double sum = 0;
  for (int64_t row = first + lane(); row < first + b.tokens; row += 32) {
    const float z = b.z[row * b.experts + task % b.experts];
    sum += (b.sigmoid ? 1 / (1 + expf(-z)) : expf(z - totals[row].largest)) / totals[row].total;
  }
  sum = warp_reduce(sum, Add());
  if (lane() == 0) importances[task] = sum;
}

// One block.
__global__ void balance_totals(Balance b, const RowTotals* totals, const double* importances, float* loss,
                               float* importance, float* lse) {
  double loss_here = 0, lse_here = 0;
  for (int64_t row = threadIdx.x; row < b.groups * b.tokens; row += blockDim.x) {
    const double one = totals[row].lse;
    lse_here += one;
    loss_here += b.z_weight * one * one;
  }
  for (int64_t task = threadIdx.x; task < b.groups * b.experts; task += blockDim.x)
    loss_here += b.slope(task / b.experts, static_cast<int>(task % b.experts)) * importances[task];
  for (int e = threadIdx.x; e < b.experts; e += blockDim.x) {
    double sum = 0;
    for (int64_t g = 0; g < b.groups; ++g) sum += importances[g * b.experts + e];
    importance[e] = static_cast<float>(sum);
  }
  loss_here = block_sum(loss_here);
  lse_here = block_sum(lse_here);
  if (threadIdx.x > 0) return;
  *loss = static_cast<float>(loss_here);
  *lse = static_cast<float>(lse_here);
}

// Importances first: they are doubles.
size_t importance_bytes(const Shape& z) {
  return static_cast<size_t>(z[0] * z[2]) * sizeof(double);
}

void balance(const KernelContext& context) {
  const Balance b(context, 0);
  double* const importances = reinterpret_cast<double*>(context.workspace);
  RowTotals* const totals =
      reinterpret_cast<RowTotals*>(context.workspace + importance_bytes(context.inputs[0].shape));
  const cudaStream_t stream = stream_of(context);
  if (b.groups > 0) {
    if (b.tokens > 0) balance_rows<<<blocks_of_warps(b.groups * b.tokens), kThreads, 0, stream>>>(b, totals);
    balance_importances<<<blocks_of_warps(b.groups * b.experts), kThreads, 0, stream>>>(b, totals,
                                                                                        importances);
  }
  balance_totals<<<1, 1024, 0, stream>>>(b, totals, importances, out<float>(context, 0),
                                         out<float>(context, 1), out<float>(context, 2));
}

size_t balance_workspace(const KernelShape& shape) {
  const Shape& z = shape.inputs[0].shape;
  return importance_bytes(z) + static_cast<size_t>(z[0] * z[1]) * sizeof(RowTotals);
}

__global__ void balance_grad_kernel(Balance b, const float* dloss, float* dz) {
  const int64_t row = warp_number();
  if (row >= b.groups * b.tokens) return;
  const int64_t group = row / b.tokens;
  const Scores scores = b.scores(row);
  const float lse = scores.log_sum_exp(), of_z = static_cast<float>(2 * b.z_weight) * lse;
  const float mean = warp_sum(b.experts, [&](int e) { return scores(e) / scores.total * b.slope(group, e); });
  for (int e = lane(); e < b.experts; e += 32) {
    const float score = scores(e), through = (b.sigmoid ? score * (1 - score) : score) / scores.total;
    dz[row * b.experts + e] =
        *dloss * (through * (b.slope(group, e) - mean) + of_z * expf(scores.z[e] - lse));
  }
}

void balance_grad(const KernelContext& context) {
  const TensorView& dz = context.outputs[0];
  if (dz.elements() == 0) return;
  balance_grad_kernel<<<blocks_of_warps(dz.shape[0] * dz.shape[1]), kThreads, 0, stream_of(context)>>>(
      Balance(context, 1), in<float>(context, 0), out<float>(context, 0));
}

}  // namespace

void add_route(KernelTable& table) {
  table.add("route", DType::f32, {route, route_workspace});
  table.add("route_grad", DType::f32, {route_grad});
  for (const DType dtype : {DType::i32, DType::f32})  // without weights, and with them
    table.add("slots", dtype, {slots, slots_workspace});
  table.add("balance", DType::f32, {balance, balance_workspace});
  table.add("balance_grad", DType::f32, {balance_grad});
}

}  // namespace trireme::cuda
