// See written_methods.h.
#include "trireme/train/parity/written_methods.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/train/parity/largest.h"
#include "trireme/train/parity/singular_parts.h"

namespace trireme::parity {
namespace {

using Settings = ExchangeSettings;

Doubles operator+(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
Doubles operator-(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}
Doubles operator*(double s, Doubles a) {
  for (double& value : a) value *= s;
  return a;
}
double squares(const Doubles& a) {
  return std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
}

// With zeros for all but the k largest.
Doubles largest(const Doubles& a, size_t k, double sampled = 0, double raised = 0) {
  Doubles result(a.size(), 0);
  for (const size_t i : largest_of(a, k, sampled, raised)) result[i] = a[i];
  return result;
}
size_t kept_count(const Exchanged& x, double ratio) {
  return std::max<size_t>(1,
                          static_cast<size_t>(std::llround(ratio * static_cast<double>(x.shape.elements()))));
}

Doubles zeros(const Exchanged& x) {
  return Doubles(x.shape.elements(), 0);
}

void top_k(Exchanged& x, const Settings& settings) {
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    const bool feedback = settings.whole("feedback") != 0;
    const Doubles all = feedback ? x.gradients[p] + x.kept["residual"][p] : x.gradients[p];
    const Doubles sent = largest(all, kept_count(x, settings.real("ratio")), 0, x.raised);
    x.sum = x.sum + sent;
    if (feedback) x.kept["residual"][p] = all - sent;
  }
}

// 1/4, 1/16, … of all elements for as many steps each, until that is not more than the ratio.
double ratio_with_warm_up(const Exchanged& x, const Settings& settings) {
  const double ratio = settings.real("ratio"), steps = settings.real("warmup");
  double stages = 0;
  while (std::pow(4, -(stages + 1)) > ratio) ++stages;
  for (double stage = 1; stage <= stages; ++stage) {
    if (static_cast<double>(x.step) <= std::floor(steps * stage / stages)) return std::pow(4, -stage);
  }
  return ratio;
}

void dgc(Exchanged& x, const Settings& settings) {
  const double m = settings.real("momentum");
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    const Doubles& g = x.gradients[p];
    Doubles &u = x.kept["velocity"][p], &v = x.kept["waiting"][p];
    if (settings.whole("nesterov") != 0) {
      u = m * (u + g);
      v = v + u + g;
    } else {
      u = m * u + g;
      v = v + u;
    }
    const Doubles sent =
        largest(v, kept_count(x, ratio_with_warm_up(x, settings)), settings.real("sampled"), x.raised);
    x.sum = x.sum + sent;
    v = v - sent;
    for (size_t i = 0; i < u.size(); ++i) {
      if (sent[i] != 0 && settings.whole("masking") != 0) u[i] = 0;
    }
  }
}

// Makes column r of a matrix with so many orthogonal to those before it, and of length 1. False where hardly
// anything is left of it: the first unit vector of which more is left then takes its place.
bool settle_column(Doubles& matrix, size_t columns, size_t r) {
  const size_t rows = matrix.size() / columns;
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < rows; ++i) sum += matrix[i * columns + a] * matrix[i * columns + b];
    return sum;
  };
  const double before = std::sqrt(product(r, r));
  for (int twice = 0; twice < 2; ++twice) {
    for (size_t q = 0; q < r; ++q) {
      const double along = product(r, q);
      for (size_t i = 0; i < rows; ++i) matrix[i * columns + r] -= along * matrix[i * columns + q];
    }
  }
  const double length = std::sqrt(product(r, r));
  if (!(length > 1e-6 * before)) return false;
  for (size_t i = 0; i < rows; ++i) matrix[i * columns + r] /= length;
  return true;
}

void power_sgd(Exchanged& x, const Settings& settings) {
  const size_t rows = x.shape[0], columns = x.shape.elements() / rows,
               rank = static_cast<size_t>(settings.real("rank"));
  const double ranks = static_cast<double>(x.gradients.size());
  std::vector<Doubles> all;
  Doubles mean = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    all.push_back(x.gradients[p] + x.kept["residual"][p]);
    mean = mean + all[p];  // a sum; products with it are sums of products
  }
  Doubles& right = x.kept["power_right"][0];
  Doubles left(rows * rank, 0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t r = 0; r < rank; ++r) left[i * rank + r] += mean[i * columns + j] * right[j * rank + r];
    }
  }
  for (size_t r = 0; r < rank; ++r) {
    bool settled = settle_column(left, rank, r);
    for (size_t row = 0; row < rows && !settled; ++row) {
      for (size_t i = 0; i < rows; ++i) left[i * rank + r] = i == row ? 1 : 0;
      settled = settle_column(left, rank, r);
    }
  }
  std::ranges::fill(right, 0);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t r = 0; r < rank; ++r) right[j * rank + r] += mean[i * columns + j] * left[i * rank + r];
    }
  }
  x.sum = zeros(x);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t r = 0; r < rank; ++r) x.sum[i * columns + j] += left[i * rank + r] * right[j * rank + r];
    }
  }
  for (size_t p = 0; p < x.gradients.size(); ++p) x.kept["residual"][p] = all[p] - 1 / ranks * x.sum;
  for (Doubles& copy : x.kept["power_right"]) copy = right;
}

// Each row as the mean of what is negative in it, or of the rest.
Doubles two_means(const Doubles& a, size_t columns) {
  Doubles result(a.size());
  for (size_t row = 0; row * columns < a.size(); ++row) {
    double sums[2] = {0, 0}, counts[2] = {0, 0};
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
      sums[a[i] >= 0] += a[i];
      counts[a[i] >= 0] += 1;
    }
    for (size_t i = row * columns; i < (row + 1) * columns; ++i)
      result[i] = sums[a[i] >= 0] / counts[a[i] >= 0];
  }
  return result;
}

void one_bit(Exchanged& x, const Settings&) {
  const size_t rows = x.shape[0], columns = x.shape.elements() / rows, ranks = x.gradients.size();
  x.sum = zeros(x);
  for (size_t p = 0; p < ranks; ++p) {
    const Doubles all = x.gradients[p] + x.kept["residual"][p], sent = two_means(all, columns);
    x.sum = x.sum + sent;
    x.kept["residual"][p] = all - sent;
  }
  // Owners have rows one after another, the last of them fewer.
  const size_t own = (rows + ranks - 1) / ranks;
  Doubles left;
  for (const Doubles& of_owner : x.kept["owner_residual"])
    left.insert(left.end(), of_owner.begin(), of_owner.end());
  left.resize(x.sum.size());
  const Doubles total = x.sum + left;
  x.sum = two_means(total, columns);
  left = total - x.sum;
  left.resize(ranks * own * columns, 0);
  for (size_t p = 0; p < ranks; ++p)
    x.kept["owner_residual"][p].assign(left.begin() + p * own * columns,
                                       left.begin() + (p + 1) * own * columns);
}

void one_bit_adam(Exchanged& x, const Settings& settings) {
  const double beta1 = settings.real("beta1"), beta2 = settings.real("beta2"), eps = settings.real("eps"),
               warmup = settings.real("warmup");
  const double step = static_cast<double>(x.step), ranks = static_cast<double>(x.gradients.size());
  const Doubles before = x.kept["momentum"][0];
  Doubles m = beta1 * before, v = x.kept["variance"][0];
  if (step <= warmup || x.shape.rank() < 2) {
    Doubles g = zeros(x);
    for (const Doubles& of_rank : x.gradients) g = g + of_rank;
    m = m + (1 - beta1) * g;
    for (size_t i = 0; i < v.size() && step <= warmup; ++i) v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
  } else {
    for (Doubles& of_rank : x.gradients) of_rank = (1 - beta1) * of_rank + beta1 / ranks * before;
    one_bit(x, settings);
    m = x.sum;
  }
  x.sum = zeros(x);
  for (size_t i = 0; i < m.size(); ++i) {
    const double deviation = std::sqrt(v[i] / (1 - std::pow(beta2, std::min(step, warmup))));
    if (v[i] > 0) x.sum[i] = m[i] / (1 - std::pow(beta1, step)) / (deviation + eps);
  }
  for (Doubles& copy : x.kept["momentum"]) copy = m;
  for (Doubles& copy : x.kept["variance"]) copy = v;
}

void threshold(Exchanged& x, const Settings& settings) {
  const double limit = settings.real("threshold");
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    const Doubles all = x.gradients[p] + x.kept["residual"][p];
    Doubles sent = zeros(x);
    for (size_t i = 0; i < all.size(); ++i) sent[i] = all[i] >= limit ? limit : all[i] <= -limit ? -limit : 0;
    x.sum = x.sum + sent;
    x.kept["residual"][p] = all - sent;
  }
}

RngKey key_of(const Exchanged& x, size_t rank, const Settings& settings) {
  const uint64_t stream = (stream_id(x.parameter) ^ (rank + 1) * 0x9E3779B97F4A7C15u) >> 2;
  return {static_cast<uint64_t>(settings.real("seed")),
          stream + static_cast<uint64_t>(x.step) * 0x9E3779B97F4A7C15u};
}

void terngrad(Exchanged& x, const Settings& settings) {
  const double clip = settings.real("clip");
  double limit = 0;
  for (const Doubles& g : x.gradients) {
    double most = 0;
    for (double value : g) most = std::max(most, std::abs(value));
    if (clip > 0) most = std::min(most, clip * std::sqrt(squares(g) / static_cast<double>(g.size())));
    limit = std::max(limit, most);
  }
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    for (size_t i = 0; i < x.sum.size(); ++i) {
      const double value = x.gradients[p][i];
      if (uniform(key_of(x, p, settings), i) * limit < std::abs(value))
        x.sum[i] += value < 0 ? -limit : limit;
    }
  }
}

// Levels of a bucket's norm. rounding(rank, number of the bucket) makes the function that rounds the levels
// of a bucket: it is called with (level, element), in the order of the elements.
template <typename Rounding>
void add_levels(Exchanged& x, const Settings& settings, const Rounding& rounding) {
  const size_t bucket = static_cast<size_t>(settings.real("bucket"));
  const double levels = std::pow(2, settings.real("bits") - 1) - 1;
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    const Doubles& g = x.gradients[p];
    for (size_t first = 0; first < g.size(); first += bucket) {
      const size_t end = std::min(g.size(), first + bucket);
      const double norm = std::sqrt(squares({g.begin() + first, g.begin() + end}));
      auto rounded = rounding(p, first / bucket);
      for (size_t i = first; i < end && norm > 0; ++i)
        x.sum[i] += (g[i] < 0 ? -1 : 1) * rounded(std::abs(g[i]) / norm * levels, i) * norm / levels;
    }
  }
}

void qsgd(Exchanged& x, const Settings& settings) {
  add_levels(x, settings, [&](size_t p, size_t) {
    return [&, p](double level, size_t i) {
      const double below = std::floor(level);
      return below + (uniform(key_of(x, p, settings), i) < level - below ? 1 : 0);
    };
  });
}

// One number rounds a whole bucket: it grows by the fraction of each level, and a level is rounded up where
// the number passes an integer.
void qsgd_elias(Exchanged& x, const Settings& settings) {
  add_levels(x, settings, [&](size_t p, size_t bucket) {
    return [number = double{uniform(key_of(x, p, settings), bucket)}](double level, size_t) mutable {
      const double before = std::floor(number), below = std::floor(level);
      number += level - below;
      return below + std::floor(number) - before;
    };
  });
}

void signum(Exchanged& x, const Settings& settings) {
  const double beta = settings.real("momentum");
  x.sum = zeros(x);
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    Doubles& m = x.kept["momentum"][p];
    m = beta * m + (1 - beta) * x.gradients[p];
    for (size_t i = 0; i < m.size(); ++i) x.sum[i] += (m[i] >= 0 ? 1 : -1) * (p == 0 ? 1.5 : 1);
  }
  for (double& vote : x.sum) vote = vote > 0 ? 1 : -1;
}

void all_reduce(Exchanged& x, const Settings&) {
  x.sum = zeros(x);
  for (const Doubles& g : x.gradients) x.sum = x.sum + g;
}

void atomo(Exchanged& x, const Settings& settings) {
  x.sum = zeros(x);
  const int64_t rows = x.shape[0], columns = x.shape.elements() / rows;
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    const double number = static_cast<double>(uniform(key_of(x, p, settings), 0));
    for (const SingularPart& part :
         drawn_parts(x.gradients[p], rows, columns, static_cast<int64_t>(settings.real("rank")), number)) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) x.sum[i * columns + j] += part.left[i] * part.right[j];
      }
    }
  }
}

// Part c begins at rank c and goes round; each rank on its way keeps what it does not send on.
void pruned_ring(Exchanged& x, const Settings& settings) {
  const size_t ranks = x.gradients.size(), elements = static_cast<size_t>(x.shape.elements());
  const size_t part = (elements + ranks - 1) / ranks;
  const size_t k = std::max<size_t>(
      1, static_cast<size_t>(std::llround(settings.real("ratio") * static_cast<double>(part))));
  x.sum = zeros(x);
  for (size_t c = 0; c < ranks; ++c) {
    const size_t begin = std::min(elements, c * part), end = std::min(elements, begin + part);
    Doubles arrived(part, 0);
    for (size_t hop = 0; hop < ranks; ++hop) {
      const size_t p = (c + hop) % ranks;
      Doubles& residual = x.kept["residual"][p];
      for (size_t i = begin; i < end; ++i) arrived[i - begin] += x.gradients[p][i] + residual[i];
      const Doubles sent = largest(arrived, k, 0, x.raised);
      for (size_t i = begin; i < end; ++i) residual[i] = arrived[i - begin] - sent[i - begin];
      arrived = sent;
    }
    std::copy_n(arrived.begin(), end - begin, x.sum.begin() + static_cast<int64_t>(begin));
  }
}

void shared_pattern(Exchanged& x, const Settings& settings) {
  const size_t block = static_cast<size_t>(settings.real("block"));
  const size_t blocks = (static_cast<size_t>(x.shape.elements()) + block - 1) / block;
  Doubles norms(blocks, 0);
  std::vector<Doubles> all;
  for (size_t p = 0; p < x.gradients.size(); ++p) {
    all.push_back(x.gradients[p] + x.kept["residual"][p]);
    for (size_t i = 0; i < all[p].size(); ++i) norms[i / block] += all[p][i] * all[p][i];
  }
  const size_t chosen = std::max<size_t>(
      1, static_cast<size_t>(std::llround(settings.real("ratio") * static_cast<double>(blocks))));
  const Doubles pattern = largest(norms, chosen, 0, x.raised);
  x.sum = zeros(x);
  for (size_t p = 0; p < all.size(); ++p) {
    for (size_t i = 0; i < all[p].size(); ++i) {
      const bool sent = pattern[i / block] != 0;
      if (sent) x.sum[i] += all[p][i];
      x.kept["residual"][p][i] = sent ? 0 : all[p][i];
    }
  }
}

}  // namespace

void run_written(const ExchangeChoice& choice, Exchanged& x) {
  using Written = void (*)(Exchanged & x, const Settings& settings);
  static const std::map<std::string_view, Written> methods = {{"all_reduce", all_reduce},
                                                              {"top_k", top_k},
                                                              {"dgc", dgc},
                                                              {"power_sgd", power_sgd},
                                                              {"one_bit", one_bit},
                                                              {"one_bit_adam", one_bit_adam},
                                                              {"threshold", threshold},
                                                              {"qsgd", qsgd},
                                                              {"terngrad", terngrad},
                                                              {"signum", signum},
                                                              {"pruned_ring", pruned_ring},
                                                              {"shared_pattern", shared_pattern},
                                                              {"atomo", atomo}};
  const auto found = methods.find(choice.method->name);
  TRIREME_CHECK(found != methods.end());
  const bool elias = found->first == "qsgd" && choice.settings.word("code") == "elias";
  (elias ? qsgd_elias : found->second)(x, choice.settings);
}

}  // namespace trireme::parity
