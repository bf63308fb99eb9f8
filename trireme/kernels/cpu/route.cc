// The router of a mixture of experts: choices by score, slots by order, and the losses that keep experts
// evenly used. Rows have as many numbers as there are experts, so plain loops do.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/workspace.h"

namespace trireme::cpu {
namespace router {
namespace {

// A row of logits in terms of scores: e^(z − largest) of a softmax, 1 / (1 + e^−z) of sigmoids.
class Scores {
 public:
  explicit Scores(const Attrs& attrs) : sigmoid_(attrs.text("scores", "softmax") == "sigmoid") {}
  bool sigmoid() const { return sigmoid_; }

  // Their sum, of which each is a share.
  float fill(const float* z, int64_t experts, float* scores) const {
    const float largest = sigmoid_ ? 0 : *std::max_element(z, z + experts);
    float total = 0;
    for (int64_t e = 0; e < experts; ++e) {
      scores[e] = sigmoid_ ? 1 / (1 + std::exp(-z[e])) : std::exp(z[e] - largest);
      total += scores[e];
    }
    return std::max(total, FLT_MIN);  // sigmoids may all be 0
  }

 private:
  bool sigmoid_;
};

// The best `count` of `values` that are not taken, the first of equal ones; takes them. Also where some are
// no numbers: there are always as many.
template <typename Taken, typename Each>
void take_best(int64_t size, int64_t count, const float* values, Taken* taken, const Each& each) {
  for (int64_t n = 0; n < count; ++n) {
    int64_t best = -1;
    for (int64_t i = 0; i < size; ++i) {
      if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
    }
    taken[best] = 1;
    each(n, best);
  }
}

class Router {
 public:
  Router(const Attrs& attrs, int64_t experts)
      : scores_(attrs),
        experts_(experts),
        k_(attrs.integer("k")),
        groups_(attrs.integer("expert_groups", 1)),
        top_groups_(attrs.integer("top_groups", 1)),
        normalise_(attrs.integer("normalise", 0) != 0),
        scale_(static_cast<float>(attrs.real("scale", 1))) {}

  // Floats for one row.
  static int64_t scratch(int64_t experts) { return 5 * experts; }

  void route(const float* z, const float* bias, float* scratch, float* w, int32_t* id) const {
    float *const scores = scratch, *const keys = scratch + experts_;
    const float total = scores_.fill(z, experts_, scores);
    // Scores keep the order of logits, whose ties are fewer.
    const bool by_logits = !bias && groups_ == 1;
    for (int64_t e = 0; e < experts_; ++e)
      keys[e] = by_logits ? z[e] : scores[e] / (scores_.sigmoid() ? 1 : total) + (bias ? bias[e] : 0);
    float* const taken = scratch + 2 * experts_;
    std::fill_n(taken, experts_, 0.0f);
    if (groups_ > 1) leave_out_groups(keys, scratch + 3 * experts_, taken);
    float chosen = 0;
    take_best(experts_, k_, keys, taken, [&](int64_t n, int64_t e) {
      id[n] = static_cast<int32_t>(e);
      w[n] = scores[e];
      chosen += scores[e];
    });
    const float divisor = normalise_ ? std::max(chosen, FLT_MIN) : scores_.sigmoid() ? 1.0f : total;
    for (int64_t n = 0; n < k_; ++n) w[n] = w[n] / divisor * scale_;
  }

 private:
  // By the sums of their two best keys.
  void leave_out_groups(const float* keys, float* scratch, float* taken) const {
    const int64_t size = experts_ / groups_;
    float *const sums = scratch, *const left = scratch + groups_;
    for (int64_t g = 0; g < groups_; ++g) {
      float first = -INFINITY, second = -INFINITY;
      for (int64_t e = g * size; e < (g + 1) * size; ++e) {
        second = std::max(second, std::min(first, keys[e]));
        first = std::max(first, keys[e]);
      }
      sums[g] = size > 1 ? first + second : first;
      left[g] = 0;
    }
    take_best(groups_, top_groups_, sums, left, [](int64_t, int64_t) {});
    for (int64_t e = 0; e < experts_; ++e) taken[e] = left[e / size] == 0 ? 1.0f : 0.0f;
  }

  Scores scores_;
  int64_t experts_, k_, groups_, top_groups_;
  bool normalise_;
  float scale_;
};

int64_t rows_of(const Shape& shape) {
  return shape.elements(0, shape.rank() - 1);
}

// Each range of rows has scratch memory of its own: as many ranges as there are threads.
template <typename Rows>
void for_rows(const KernelContext& context, int64_t rows, int64_t scratch_each, const Rows& body) {
  ThreadPool& pool = pool_of(context);
  const int64_t parts = pool.threads(), each = (rows + parts - 1) / parts;
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      float* const scratch = reinterpret_cast<float*>(context.workspace) + p * scratch_each;
      for (int64_t row = p * each; row < std::min(rows, (p + 1) * each); ++row) body(row, scratch);
    }
  });
}

void route(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const int64_t experts = shape.back(), k = context.outputs[0].shape.back();
  const Router router(context.attrs, experts);
  const float *z = context.in<float>(0), *bias = context.inputs.size() == 2 ? context.in<float>(1) : nullptr;
  float* const w = context.out<float>(0);
  int32_t* const id = context.out<int32_t>(1);
  for_rows(context, rows_of(shape), Router::scratch(experts), [&](int64_t row, float* scratch) {
    router.route(z + row * experts, bias, scratch, w + row * k, id + row * k);
  });
}

size_t route_workspace(const KernelShape& shape) {
  return static_cast<size_t>(Router::scratch(shape.inputs[0].shape.back()) * shape.threads) * sizeof(float);
}

// dz of a row, by the formulas in docs/experts.md.
void route_grad(const KernelContext& context) {
  const Shape& shape = context.inputs[1].shape;
  const int64_t experts = shape.back(), k = context.inputs[0].shape.back();
  const Scores scores(context.attrs);
  const bool normalise = context.attrs.integer("normalise", 0) != 0;
  const float scale = static_cast<float>(context.attrs.real("scale", 1));
  for_rows(context, rows_of(shape), experts, [&](int64_t row, float* s) {
    const float *dw = context.in<float>(0) + row * k, *z = context.in<float>(1) + row * experts;
    const int32_t* id = context.in<int32_t>(2) + row * k;
    float* const dz = context.out<float>(0) + row * experts;
    const float total = scores.fill(z, experts, s);
    const auto for_chosen = [&](const auto& each) {
      for (int64_t n = 0; n < k; ++n) {
        if (id[n] >= 0 && id[n] < experts) each(n, id[n]);
      }
    };
    float chosen = 0;
    for_chosen([&](int64_t, int32_t e) { chosen += s[e]; });
    const float divisor = normalise ? std::max(chosen, FLT_MIN) : scores.sigmoid() ? 1.0f : total;
    // A weight is s/divisor. Where the divisor is made of scores, all of them pull it the other way.
    float mean = 0;
    for_chosen([&](int64_t n, int32_t e) { mean += s[e] / divisor * dw[n]; });
    const float of_chosen = normalise ? mean : 0, of_all = normalise || scores.sigmoid() ? 0 : mean;
    std::fill_n(dz, experts, -of_all);
    for_chosen([&](int64_t n, int32_t e) { dz[e] += dw[n] - of_chosen; });
    for (int64_t e = 0; e < experts; ++e) {
      const float slope = scores.sigmoid() ? s[e] * (1 - s[e]) : s[e];
      dz[e] *= scale * slope / divisor;
    }
  });
}

size_t route_grad_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.inputs[1].shape.back() * shape.threads) * sizeof(float);
}

// A group's choices, one after another: each expert gives its slots to those that come first.
void slots(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const int64_t groups = shape[0], tokens = shape[1], k = shape[2];
  const int64_t experts = context.outputs[2].shape[0], capacity = context.attrs.integer("capacity");
  const bool by_choice = context.attrs.text("order", "token") == "choice";
  const bool drawn = context.inputs.size() == 3;
  RngKey key;
  if (drawn) {
    const int64_t* rng = context.in<int64_t>(2);
    key = {static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(context.attrs.integer("stream")) +
                                              static_cast<uint64_t>(rng[1]) * 0x9E3779B97F4A7C15u};
  }
  const int64_t offset = context.attrs.integer("offset", 0);
  int32_t* const used = reinterpret_cast<int32_t*>(context.workspace);  // [g e]: asked for, slots or not
  int32_t* const count = context.out<int32_t>(1);
  pool_of(context).parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const int32_t* id = context.in<int32_t>(0) + g * tokens * k;
      int32_t *at = context.out<int32_t>(0) + g * tokens * k, *asked = used + g * experts;
      std::fill_n(asked, experts, 0);
      std::fill_n(count + g * k * experts, k * experts, 0);
      for (int64_t n = 0; n < tokens * k; ++n) {
        const int64_t i = by_choice ? n % tokens * k + n / tokens : n, choice = i % k, e = id[i];
        at[i] = -1;
        if (e < 0 || e >= experts) continue;
        if (drawn && choice > 0) {
          const float u = uniform(key, static_cast<uint64_t>(offset + g * tokens * k + i));
          if (!(u < 2 * context.in<float>(1)[g * tokens * k + i])) continue;
        }
        count[(g * k + choice) * experts + e] += 1;
        if (const int32_t slot = asked[e]++; slot < capacity)
          at[i] = static_cast<int32_t>(e * capacity + slot);
      }
    }
  });
  // Whole numbers, so that no order of adding matters while they are below 2^24.
  float *const load = context.out<float>(2), *const dropped = context.out<float>(3);
  std::fill_n(load, experts, 0.0f);
  double without = 0;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t e = 0; e < experts; ++e) {
      load[e] += static_cast<float>(used[g * experts + e]);
      without += static_cast<double>(std::max<int64_t>(0, used[g * experts + e] - capacity));
    }
  }
  *dropped = static_cast<float>(without);
}

size_t slots_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.inputs[0].shape[0] * shape.outputs[2].shape[0]) * sizeof(int32_t);
}

// What the loss and its gradient know of a group.
class Balance {
 public:
  Balance(const Attrs& attrs, const Shape& z, const Shape& count)
      : scores(attrs),
        alpha(attrs.real("alpha")),
        z_weight(attrs.real("z")),
        tokens(z[1]),
        experts(z[2]),
        k(count[1]),
        choices(attrs.integer("choices", count[1])) {}

  // α·E·f_e: f_e the share of the group's choices that are expert e.
  void slopes(const int32_t* count, float* a) const {
    const double unit = alpha * static_cast<double>(experts) / static_cast<double>(choices * tokens);
    for (int64_t e = 0; e < experts; ++e) {
      double sum = 0;
      for (int64_t choice = 0; choice < choices; ++choice)
        sum += static_cast<double>(count[choice * experts + e]);
      a[e] = static_cast<float>(unit * sum);
    }
  }
  // log Σ e^z.
  float lse(const float* z) const {
    const float largest = *std::max_element(z, z + experts);
    float total = 0;
    for (int64_t e = 0; e < experts; ++e) total += std::exp(z[e] - largest);
    return largest + std::log(total);
  }

  Scores scores;
  double alpha, z_weight;
  int64_t tokens, experts, k, choices;
};

// Groups in parallel, then their sums one after another: loss and lse of a group, and its importance.
void balance(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const Balance b(context.attrs, shape, context.inputs[1].shape);
  const int64_t groups = shape[0];
  Workspace workspace(context.workspace);
  double *const losses = workspace.take<double>(groups), *const lses = workspace.take<double>(groups);
  double* const importances = workspace.take<double>(groups * b.experts);
  float* const scratch = workspace.take<float>(groups * 2 * b.experts);
  pool_of(context).parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const float* z = context.in<float>(0) + g * b.tokens * b.experts;
      float *const a = scratch + g * 2 * b.experts, *const p = a + b.experts;
      double *const importance = importances + g * b.experts, squares = 0;
      b.slopes(context.in<int32_t>(1) + g * b.k * b.experts, a);
      std::fill_n(importance, b.experts, 0.0);
      lses[g] = 0;
      for (int64_t t = 0; t < b.tokens; ++t, z += b.experts) {
        const float total = b.scores.fill(z, b.experts, p);
        for (int64_t e = 0; e < b.experts; ++e) importance[e] += static_cast<double>(p[e] / total);
        const double lse = b.lse(z);
        lses[g] += lse;
        squares += lse * lse;
      }
      losses[g] = b.z_weight * squares;
      for (int64_t e = 0; e < b.experts; ++e) losses[g] += static_cast<double>(a[e]) * importance[e];
    }
  });
  double loss = 0, lse = 0;
  for (int64_t g = 0; g < groups; ++g) {
    loss += losses[g];
    lse += lses[g];
  }
  *context.out<float>(0) = static_cast<float>(loss);
  *context.out<float>(2) = static_cast<float>(lse);
  for (int64_t e = 0; e < b.experts; ++e) {
    double sum = 0;
    for (int64_t g = 0; g < groups; ++g) sum += importances[g * b.experts + e];
    context.out<float>(1)[e] = static_cast<float>(sum);
  }
}

size_t balance_workspace(const KernelShape& shape) {
  const int64_t groups = shape.inputs[0].shape[0], experts = shape.inputs[0].shape[2];
  Workspace workspace(nullptr);
  workspace.take<double>(groups);
  workspace.take<double>(groups);
  workspace.take<double>(groups * experts);
  workspace.take<float>(groups * 2 * experts);
  return workspace.bytes();
}

void balance_grad(const KernelContext& context) {
  const Shape& shape = context.inputs[1].shape;
  const Balance b(context.attrs, shape, context.inputs[2].shape);
  const float dloss = *context.in<float>(0);
  float* const scratch = reinterpret_cast<float*>(context.workspace);
  pool_of(context).parallel_for(shape[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const float* z = context.in<float>(1) + g * b.tokens * b.experts;
      float* dz = context.out<float>(0) + g * b.tokens * b.experts;
      float *const a = scratch + g * 2 * b.experts, *const s = a + b.experts;
      b.slopes(context.in<int32_t>(2) + g * b.k * b.experts, a);
      for (int64_t t = 0; t < b.tokens; ++t, z += b.experts, dz += b.experts) {
        const float total = b.scores.fill(z, b.experts, s), lse = b.lse(z);
        float mean = 0;
        for (int64_t e = 0; e < b.experts; ++e) mean += s[e] / total * a[e];
        const float of_z = static_cast<float>(2 * b.z_weight) * lse;
        for (int64_t e = 0; e < b.experts; ++e) {
          const float through = b.scores.sigmoid() ? s[e] * (1 - s[e]) / total : s[e] / total;
          dz[e] = dloss * (through * (a[e] - mean) + of_z * std::exp(z[e] - lse));
        }
      }
    }
  });
}

size_t balance_grad_workspace(const KernelShape& shape) {
  const Shape& z = shape.inputs[1].shape;
  return static_cast<size_t>(z[0] * 2 * z[2]) * sizeof(float);
}

}  // namespace
}  // namespace router

void add_route(KernelTable& table) {
  using namespace router;
  table.add("route", DType::f32, {route, route_workspace});
  table.add("route_grad", DType::f32, {route_grad, route_grad_workspace});
  for (const DType dtype : {DType::i32, DType::f32})  // with weights, and without
    table.add("slots", dtype, {slots, slots_workspace});
  table.add("balance", DType::f32, {balance, balance_workspace});
  table.add("balance_grad", DType::f32, {balance_grad, balance_grad_workspace});
}

}  // namespace trireme::cpu
