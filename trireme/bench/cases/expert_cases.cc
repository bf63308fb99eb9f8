// Cases of what mixtures of experts are made of: route, slots, balance, dispatch, combine, matmul_slots.
#include <algorithm>
#include <cmath>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace expert_reference {
namespace {

using enum Differentiable;

// Shares of a row: softmax, or sigmoids over their sum.
std::vector<double> scores_of(const RefTensor& z, int64_t row, const Attrs& attrs, bool as_shares) {
  const int64_t experts = z.shape.back();
  const bool sigmoid = attrs.text("scores", "softmax") == "sigmoid";
  std::vector<double> scores;
  double total = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const double x = z.values[static_cast<size_t>(row * experts + e)];
    scores.push_back(sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x));
    total += scores.back();
  }
  if (!sigmoid || as_shares) {
    for (double& score : scores) score /= total;
  }
  return scores;
}

// The index of the largest of those left; the first of equal ones.
int64_t largest_left(const std::vector<double>& values, const std::vector<bool>& left) {
  int64_t best = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (left[i] && (best < 0 || values[i] > values[static_cast<size_t>(best)]))
      best = static_cast<int64_t>(i);
  }
  return best;
}

RefTensors route(const RefTensors& in, const Attrs& attrs) {
  const int64_t experts = in[0].shape.back(), k = attrs.integer("k"), rows = in[0].shape.elements() / experts;
  const int64_t groups = attrs.integer("expert_groups", 1), size = experts / groups;
  Shape shape = in[0].shape;
  shape.set(shape.rank() - 1, k);
  RefTensor w = RefTensor::zeros(shape), id = RefTensor::zeros(shape, DType::i32);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> scores = scores_of(in[0], row, attrs, false);
    std::vector<double> keys = scores;
    if (in.size() == 2) {
      for (size_t e = 0; e < keys.size(); ++e) keys[e] += in[1].values[e];
    }
    // A group is worth its two best.
    std::vector<double> worth;
    for (int64_t g = 0; g < groups; ++g) {
      std::vector<double> of_group(keys.begin() + g * size, keys.begin() + (g + 1) * size);
      std::ranges::sort(of_group, std::greater<>());
      worth.push_back(of_group[0] + (size > 1 ? of_group[1] : 0));
    }
    std::vector<bool> group_left(worth.size(), true), left(keys.size(), false);
    for (int64_t n = 0; n < attrs.integer("top_groups", 1); ++n) {
      const int64_t g = largest_left(worth, group_left);
      group_left[static_cast<size_t>(g)] = false;
      std::fill_n(left.begin() + g * size, size, true);
    }
    double chosen = 0;
    for (int64_t n = 0; n < k; ++n) {
      const int64_t e = largest_left(keys, left);
      left[static_cast<size_t>(e)] = false;
      id.values[static_cast<size_t>(row * k + n)] = static_cast<double>(e);
      w.values[static_cast<size_t>(row * k + n)] = scores[static_cast<size_t>(e)];
      chosen += scores[static_cast<size_t>(e)];
    }
    for (int64_t n = 0; n < k; ++n)
      w.values[static_cast<size_t>(row * k + n)] *=
          attrs.real("scale", 1) / (attrs.integer("normalise", 0) ? chosen : 1);
  }
  return {w, id};
}

// By the derivative of each weight by each logit.
RefTensors route_grad(const RefTensors& in, const Attrs& attrs) {
  const int64_t experts = in[1].shape.back(), k = in[0].shape.back(), rows = in[1].shape.elements() / experts;
  const bool sigmoid = attrs.text("scores", "softmax") == "sigmoid",
             normalise = attrs.integer("normalise", 0);
  RefTensor dz = like(in[1]);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> s = scores_of(in[1], row, attrs, false);
    const auto expert = [&](int64_t n) {
      return static_cast<size_t>(in[2].values[static_cast<size_t>(row * k + n)]);
    };
    // ds_a/dz_b of the scores themselves.
    const auto slope = [&](size_t a, size_t b) {
      return sigmoid ? (a == b ? s[a] * (1 - s[a]) : 0) : s[a] * ((a == b ? 1 : 0) - s[b]);
    };
    double chosen = 0;
    for (int64_t n = 0; n < k; ++n) chosen += s[expert(n)];
    for (int64_t b = 0; b < experts; ++b) {
      double sum = 0, chosen_slope = 0;
      for (int64_t n = 0; n < k; ++n) chosen_slope += slope(expert(n), static_cast<size_t>(b));
      for (int64_t n = 0; n < k; ++n) {
        const double own = slope(expert(n), static_cast<size_t>(b));
        const double dw = in[0].values[static_cast<size_t>(row * k + n)];
        sum += dw * (normalise ? own / chosen - s[expert(n)] * chosen_slope / (chosen * chosen) : own);
      }
      dz.values[static_cast<size_t>(row * experts + b)] = attrs.real("scale", 1) * sum;
    }
  }
  return {dz};
}

RefTensors slots(const RefTensors& in, const Attrs& attrs) {
  const int64_t groups = in[0].shape[0], tokens = in[0].shape[1], k = in[0].shape[2];
  const int64_t experts = attrs.integer("experts"), capacity = attrs.integer("capacity");
  RefTensor at = like(in[0]), count = like(in[0], {groups, k, experts});
  RefTensor load = RefTensor::zeros({experts}), dropped = RefTensor::zeros({});
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int64_t> taken(static_cast<size_t>(experts));
    const auto place = [&](int64_t t, int64_t choice) {
      const size_t i = static_cast<size_t>((g * tokens + t) * k + choice);
      const int64_t e = static_cast<int64_t>(in[0].values[i]);
      at.values[i] = -1;
      if (e < 0) return;
      if (in.size() == 3 && choice > 0) {
        const RngKey key = rng_key(in[2].values[0], attrs, in[2].values[1]);
        if (uniform(key, static_cast<uint64_t>(attrs.integer("offset", 0)) + i) >= 2 * in[1].values[i])
          return;
      }
      count.at({g, choice, e}) += 1;
      load.at({e}) += 1;
      const int64_t slot = taken[static_cast<size_t>(e)]++;
      if (slot < capacity)
        at.values[i] = static_cast<double>(e * capacity + slot);
      else
        dropped.values[0] += 1;
    };
    if (attrs.text("order", "token") == "choice") {
      for (int64_t choice = 0; choice < k; ++choice) {
        for (int64_t t = 0; t < tokens; ++t) place(t, choice);
      }
    } else {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t choice = 0; choice < k; ++choice) place(t, choice);
      }
    }
  }
  return {at, count, load, dropped};
}

// Group by group: tokens · α·E·Σ f·P, and the squares of log Σ e^z.
RefTensors balance(const RefTensors& in, const Attrs& attrs) {
  const int64_t groups = in[0].shape[0], tokens = in[0].shape[1], experts = in[0].shape[2];
  const int64_t choices = attrs.integer("choices", in[1].shape[1]);
  RefTensor loss = RefTensor::zeros({}), importance = RefTensor::zeros({experts}), lse = loss;
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<double> mean(static_cast<size_t>(experts));
    for (int64_t t = 0; t < tokens; ++t) {
      const std::vector<double> share = scores_of(in[0], g * tokens + t, attrs, true);
      double total = 0;
      for (int64_t e = 0; e < experts; ++e) {
        mean[static_cast<size_t>(e)] += share[static_cast<size_t>(e)] / static_cast<double>(tokens);
        importance.at({e}) += share[static_cast<size_t>(e)];
        total += std::exp(in[0].at({g, t, e}));
      }
      lse.values[0] += std::log(total);
      loss.values[0] += attrs.real("z") * std::log(total) * std::log(total);
    }
    for (int64_t e = 0; e < experts; ++e) {
      double f = 0;
      for (int64_t choice = 0; choice < choices; ++choice)
        f += in[1].at({g, choice, e}) / static_cast<double>(choices * tokens);
      loss.values[0] += static_cast<double>(tokens) * attrs.real("alpha") * static_cast<double>(experts) * f *
                        mean[static_cast<size_t>(e)];
    }
  }
  return {loss, importance, lse};
}

// Central differences of the loss, in double precision.
RefTensors balance_grad(const RefTensors& in, const Attrs& attrs) {
  constexpr double kStep = 1e-5;
  RefTensor dz = like(in[1]);
  for (size_t i = 0; i < dz.values.size(); ++i) {
    const auto loss_at = [&](double step) {
      RefTensors moved{in[1], in[2]};
      moved[0].values[i] += step;
      return balance(moved, attrs)[0].values[0];
    };
    dz.values[i] = in[0].values[0] * (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  }
  return {dz};
}

// Visits each choice that has a slot of an expert here: token, number of the choice, row of d [e g c m].
template <typename Each>
void for_choices(const RefTensor& at, const Shape& d, const Attrs& attrs, const Each& each) {
  const int64_t tokens = at.shape[1], k = at.shape[2], capacity = d[2];
  for (int64_t n = 0; n < at.shape.elements(); ++n) {
    const int64_t slot = static_cast<int64_t>(at.values[static_cast<size_t>(n)]);
    if (slot < 0) continue;
    const int64_t expert = slot / capacity - attrs.integer("expert_offset", 0), group = n / (tokens * k);
    if (expert < 0 || expert >= d[0]) continue;
    each(n / k, n, (expert * d[1] + group) * capacity + slot % capacity);
  }
}

RefTensors dispatch(const RefTensors& in, const Attrs& attrs) {
  const int64_t width = in[0].shape[2];
  RefTensor d = like(in[0], {attrs.integer("experts"), in[0].shape[0], attrs.integer("capacity"), width});
  for_choices(in[1], d.shape, attrs, [&](int64_t token, int64_t n, int64_t row) {
    const double w = in.size() == 3 ? in[2].values[static_cast<size_t>(n)] : 1;
    for (int64_t i = 0; i < width; ++i)
      d.values[static_cast<size_t>(row * width + i)] +=
          w * in[0].values[static_cast<size_t>(token * width + i)];
  });
  return {d};
}

RefTensors combine(const RefTensors& in, const Attrs& attrs) {
  const int64_t width = in[0].shape[3];
  RefTensor y = like(in[0], {in[1].shape[0], in[1].shape[1], width});
  for_choices(in[1], in[0].shape, attrs, [&](int64_t token, int64_t n, int64_t row) {
    const double w = in.size() == 3 ? in[2].values[static_cast<size_t>(n)] : 1;
    for (int64_t i = 0; i < width; ++i)
      y.values[static_cast<size_t>(token * width + i)] +=
          w * in[0].values[static_cast<size_t>(row * width + i)];
  });
  return {y};
}

RefTensors slot_products(const RefTensors& in, const Attrs& attrs) {
  const int64_t width = in[0].shape[2];
  RefTensor p = RefTensor::zeros(in[2].shape);
  for_choices(in[2], in[1].shape, attrs, [&](int64_t token, int64_t n, int64_t row) {
    for (int64_t i = 0; i < width; ++i)
      p.values[static_cast<size_t>(n)] += in[0].values[static_cast<size_t>(token * width + i)] *
                                          in[1].values[static_cast<size_t>(row * width + i)];
  });
  return {p};
}

RefTensors slots_used(const RefTensors& in, const Attrs& attrs) {
  RefTensor used = like(in[0], {attrs.integer("experts"), in[0].shape[0]});
  const Shape slots{used.shape[0], used.shape[1], attrs.integer("capacity")};
  for_choices(in[0], slots, attrs, [&](int64_t, int64_t, int64_t row) {
    double& count = used.values[static_cast<size_t>(row / slots[2])];
    count = std::max(count, static_cast<double>(row % slots[2] + 1));
  });
  return {used};
}

// Visits the rows that are used: e, and the number of the row among all of [e g c].
template <typename Each>
void for_used(const Shape& x, const RefTensor& used, const Each& each) {
  for (int64_t row = 0; row < x.elements(0, 3); ++row) {
    if (static_cast<double>(row % x[2]) < used.values[static_cast<size_t>(row / x[2])])
      each(row / (x[1] * x[2]), row);
  }
}

RefTensors matmul_slots(const RefTensors& in, const Attrs& attrs) {
  const Shape &x = in[0].shape, &w = in[1].shape;
  const bool transposed = attrs.integer("transpose_b", 0) != 0;
  const int64_t m = x[3], n = transposed ? w[1] : w[2];
  RefTensor y = like(in[0], {x[0], x[1], x[2], n});
  for_used(x, in[2], [&](int64_t e, int64_t row) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i)
        y.values[static_cast<size_t>(row * n + j)] +=
            in[0].values[static_cast<size_t>(row * m + i)] *
            in[1].values[static_cast<size_t>(e * m * n + (transposed ? j * m + i : i * n + j))];
    }
  });
  return {y};
}

RefTensors matmul_slots_grad_weight(const RefTensors& in, const Attrs&) {
  const int64_t m = in[0].shape[3], n = in[1].shape[3];
  RefTensor dw = like(in[0], {in[0].shape[0], m, n});
  for_used(in[0].shape, in[2], [&](int64_t e, int64_t row) {
    for (int64_t at = 0; at < m * n; ++at)
      dw.values[static_cast<size_t>(e * m * n + at)] += in[0].values[static_cast<size_t>(row * m + at / n)] *
                                                        in[1].values[static_cast<size_t>(row * n + at % n)];
  });
  return {dw};
}

void add_routes(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& label, Shape z, Attrs attrs, bool bias = false) {
    Shape chosen = z;
    chosen.set(z.rank() - 1, attrs.integer("k"));
    std::vector<CaseInput> inputs{kept_f32(z, -2, 2)};
    if (bias) inputs.push_back(kept_f32({z.back()}, -0.2, 0.2));
    cases.push_back({"route", label, inputs, attrs, route, 1e-5, z.elements() ? kYes : kNo});
    const double experts = static_cast<double>(z.back());
    cases.push_back({"route_grad",
                     label,
                     {kept_f32(chosen), kept_f32(z, -2, 2), ids(chosen, 0, experts)},
                     attrs,
                     route_grad,
                     1e-5,
                     kNo});
  };
  add("top_1", {3, 7, 5}, {{"k", int64_t{1}}});
  add("top_2", {3, 7, 8}, {{"k", int64_t{2}}});
  add("normalised", {21, 8}, {{"k", int64_t{2}}, {"normalise", int64_t{1}}});
  add("sigmoid", {5, 6}, {{"k", int64_t{3}}, {"scores", "sigmoid"}, {"scale", 0.5}});
  add("groups", {2, 9, 12},
      {{"k", int64_t{4}},
       {"scores", "sigmoid"},
       {"normalise", int64_t{1}},
       {"scale", 2.5},
       {"expert_groups", int64_t{4}},
       {"top_groups", int64_t{2}}},
      true);
  add("groups_of_one", {9, 4}, {{"k", int64_t{2}}, {"expert_groups", int64_t{4}}, {"top_groups", int64_t{3}}},
      true);
  add("one_expert", {6, 1}, {{"k", int64_t{1}}});
  add("nothing", {0, 4}, {{"k", int64_t{2}}, {"normalise", int64_t{1}}});
}

void add_slots(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& label, Shape id, int64_t experts, int64_t capacity,
                       Attrs attrs = {}, bool drawn = false) {
    attrs.set("experts", experts);
    attrs.set("capacity", capacity);
    std::vector<CaseInput> inputs{ids(id, -1, static_cast<double>(experts))};
    if (drawn) {
      attrs.set("stream", int64_t{42});
      inputs.push_back(kept_f32(id, 0, 1));
      inputs.push_back({{2}, DType::i64, 0, 1e6});
    }
    cases.push_back({"slots", label, inputs, attrs, slots, 1e-5, kNo});
  };
  add("room", {3, 8, 2}, 4, 16);
  add("too_few", {3, 17, 2}, 3, 4);
  add("by_choice", {2, 17, 3}, 3, 7, {{"order", "choice"}});
  add("drawn", {4, 13, 2}, 5, 4, {{"offset", int64_t{7}}}, true);
  add("one_group", {1, 40, 1}, 8, 5);
  add("no_group", {0, 4, 2}, 3, 2);
}

void add_balances(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& label, Shape z, int64_t k, const Attrs& attrs) {
    const CaseInput logits = kept_f32(z, -2, 2), count = ids({z[0], k, z[2]}, 0, 4);
    cases.push_back({"balance", label, {logits, count}, attrs, balance, 1e-5, z.elements() ? kYes : kNo});
    cases.push_back({"balance_grad", label, {kept_f32({}), logits, count}, attrs, balance_grad, 1e-4, kNo});
  };
  add("softmax", {3, 7, 5}, 2, {{"alpha", 0.01}, {"z", 0.001}});
  add("first_choices", {2, 9, 4}, 2, {{"alpha", 1.0}, {"z", 0.0}, {"choices", int64_t{1}}});
  add("sigmoid", {4, 6, 8}, 3, {{"alpha", 0.5}, {"z", 0.1}, {"scores", "sigmoid"}});
  add("z_alone", {1, 11, 3}, 1, {{"alpha", 0.0}, {"z", 1.0}});
  add("no_group", {0, 4, 3}, 2, {{"alpha", 1.0}, {"z", 1.0}});
}

void add_dispatches(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& label, int64_t g, int64_t s, int64_t k, int64_t e, int64_t c,
                       int64_t m, int64_t offset = 0) {
    // Some are dropped, and some belong to experts before and behind these.
    const CaseInput tokens{{g, s, m}}, slots{{e, g, c, m}}, w = kept_f32({g, s, k});
    const CaseInput at = ids({g, s, k}, -1, static_cast<double>((e + 2 * offset) * c));
    Attrs of_part;
    if (offset) of_part.set("expert_offset", offset);
    Attrs made = of_part;
    made.set("experts", e);
    made.set("capacity", c);
    const Differentiable smooth = g * m > 0 ? kYes : kNo;
    cases.push_back({"dispatch", label, {tokens, at}, made, dispatch, 1e-5, smooth});
    cases.push_back({"dispatch", label + "_weighted", {tokens, at, w}, made, dispatch, 1e-5, smooth});
    cases.push_back({"combine", label, {slots, at}, of_part, combine, 1e-5, smooth});
    cases.push_back({"combine", label + "_weighted", {slots, at, w}, of_part, combine, 1e-5, smooth});
    cases.push_back({"slots_used", label, {at}, made, slots_used, 1e-5, kNo});
    cases.push_back({"slot_products", label, {tokens, slots, at}, of_part, slot_products, 1e-5, kNo});
  };
  add("small", 3, 7, 2, 4, 3, 5);
  add("top_1", 2, 9, 1, 3, 5, 33);
  add("part", 2, 11, 3, 3, 4, 7, 2);
  add("one_expert", 1, 6, 1, 1, 6, 8);
  add("no_group", 0, 6, 2, 3, 4, 5);
  add("no_width", 2, 6, 2, 3, 4, 0);
}

void add_matmul_slots(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& label, const Shape& slots, int64_t m, int64_t n, double most = -1) {
    // Some groups have more than an expert has slots, which then are all used.
    const int64_t e = slots[0], g = slots[1], c = slots[2];
    const CaseInput used = ids({e, g}, 0, most < 0 ? static_cast<double>(c) + 1.5 : most);
    const CaseInput x{{e, g, c, m}}, dy{{e, g, c, n}};
    const Differentiable smooth = x.shape.elements() * n > 0 ? kYes : kNo;
    const Attrs rows{{"rows", static_cast<double>(c) / 2}};
    Attrs transposed = rows;
    transposed.set("transpose_b", int64_t{1});
    cases.push_back({"matmul_slots", label, {x, {{e, m, n}}, used}, rows, matmul_slots, 1e-5, smooth});
    cases.push_back(
        {"matmul_slots", label + "_nt", {x, {{e, n, m}}, used}, transposed, matmul_slots, 1e-5, smooth});
    cases.push_back(
        {"matmul_slots_grad_weight", label, {x, dy, used}, rows, matmul_slots_grad_weight, 1e-5, kNo});
  };
  add("small", {3, 2, 5}, 7, 6);
  add("tiles", {2, 3, 40}, 33, 70);
  add("one_slot", {4, 9, 1}, 20, 17);
  add("deep", {2, 2, 300}, 24, 9);       // more rows than one block of a sum has
  add("chunks", {2, 41, 210}, 5, 6);     // sums that are cut into chunks
  add("few", {8, 4, 50}, 48, 31, 2);     // one row at most
  add("none", {3, 2, 16}, 12, 10, 0.5);  // no row at all
  add("long_sum", {1, 1, 30}, 900, 25);  // several blocks of k
  add("few_rows", {2, 1, 6}, 410, 50);   // weights are read where they lie
  add("chunked", {1, 1, 3}, 8300, 4);    // a sum over inputs that is cut into chunks
  add("no_group", {2, 0, 4}, 3, 5);
  add("no_inputs", {2, 3, 4}, 0, 5);
  add("no_outputs", {2, 3, 4}, 5, 0);
}

}  // namespace
}  // namespace expert_reference

std::vector<OpCase> expert_cases() {
  using namespace expert_reference;
  std::vector<OpCase> cases;
  add_routes(cases);
  add_slots(cases);
  add_balances(cases);
  add_dispatches(cases);
  add_matmul_slots(cases);
  return cases;
}

}  // namespace trireme::bench
