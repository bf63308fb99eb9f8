// Cases of ctc_loss. Small ones are held to the definition: all paths of one class a frame are gone through,
// and those that become the labels are added up. Larger ones are held to the recursion over probabilities,
// which a test holds to the same paths.
#include <algorithm>
#include <cmath>

#include "trireme/bench/cases/reference.h"

namespace trireme::bench {
namespace ctc_reference {
namespace {

// One row of a batch.
struct Row {
  std::vector<std::vector<double>> y;  // of each frame, the probabilities of the classes
  std::vector<int64_t> labels;
  int64_t blank;
};

Row row_of(const RefTensors& in, const Attrs& attrs, int64_t b) {
  const RefTensor& logits = in[0];
  Row row{.blank = attrs.integer("blank", 0)};
  const auto frames = static_cast<int64_t>(in[2].values[b]), labels = static_cast<int64_t>(in[3].values[b]);
  for (int64_t t = 0; t < frames; ++t) {
    std::vector<double>& y = row.y.emplace_back();
    double sum = 0;
    for (int64_t k = 0; k < logits.shape[2]; ++k) y.push_back(std::exp(logits.at({b, t, k})));
    for (const double one : y) sum += one;
    for (double& one : y) one /= sum;
  }
  for (int64_t i = 0; i < labels; ++i) row.labels.push_back(static_cast<int64_t>(in[1].at({b, i})));
  return row;
}

// Of all alignments together the probability, and of those that are at class k in frame t.
struct Shares {
  double whole = 0;
  std::vector<std::vector<double>> at;
};

std::vector<int64_t> merged(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> result;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) result.push_back(path[t]);
  }
  return result;
}

Shares by_paths(const Row& row, int64_t classes) {
  Shares shares{0, std::vector(row.y.size(), std::vector<double>(static_cast<size_t>(classes)))};
  std::vector<int64_t> path(row.y.size(), 0);
  for (;;) {
    if (merged(path, row.blank) == row.labels) {
      double p = 1;
      for (size_t t = 0; t < path.size(); ++t) p *= row.y[t][path[t]];
      shares.whole += p;
      for (size_t t = 0; t < path.size(); ++t) shares.at[t][path[t]] += p;
    }
    size_t t = 0;
    while (t < path.size() && ++path[t] == classes) path[t++] = 0;
    if (t == path.size()) return shares;
  }
}

Shares by_recursion(const Row& row, int64_t classes) {
  const int64_t frames = std::ssize(row.y), places = 2 * std::ssize(row.labels) + 1;
  Shares shares{0, std::vector(row.y.size(), std::vector<double>(static_cast<size_t>(classes)))};
  if (frames == 0) {
    shares.whole = places == 1;
    return shares;
  }
  const auto class_at = [&](int64_t s) { return s % 2 == 0 ? row.blank : row.labels[s / 2]; };
  const auto reaches = [&](int64_t from, int64_t to) {
    return to == from || to == from + 1 || (to == from + 2 && to % 2 == 1 && class_at(to) != class_at(from));
  };
  std::vector alpha(frames, std::vector<double>(places)), beta = alpha;
  for (int64_t t = 0; t < frames; ++t) {
    for (int64_t s = 0; s < places; ++s) {
      double sum = t == 0 && s < 2;
      for (int64_t from = 0; t > 0 && from < places; ++from) sum += reaches(from, s) ? alpha[t - 1][from] : 0;
      alpha[t][s] = sum * row.y[t][class_at(s)];
    }
  }
  for (int64_t t = frames - 1; t >= 0; --t) {
    for (int64_t s = 0; s < places; ++s) {
      double sum = t + 1 == frames && s + 2 >= places;
      for (int64_t to = 0; t + 1 < frames && to < places; ++to)
        sum += reaches(s, to) ? beta[t + 1][to] * row.y[t + 1][class_at(to)] : 0;
      beta[t][s] = sum;
      shares.at[t][class_at(s)] += alpha[t][s] * beta[t][s];
    }
  }
  for (int64_t s = std::max<int64_t>(0, places - 2); s < places; ++s) shares.whole += alpha[frames - 1][s];
  return shares;
}

using SharesOf = Shares (*)(const Row& row, int64_t classes);

template <SharesOf kShares>
RefTensors loss(const RefTensors& in, const Attrs& attrs) {
  RefTensor sum = RefTensor::zeros({}), count = RefTensor::zeros({});
  for (int64_t b = 0; b < in[0].shape[0]; ++b) {
    const double p = kShares(row_of(in, attrs, b), in[0].shape[2]).whole;
    if (p == 0) continue;
    sum.values[0] -= std::log(p);
    count.values[0] += 1;
  }
  return {sum, count};
}

template <SharesOf kShares>
RefTensors loss_grad(const RefTensors& in, const Attrs& attrs) {
  RefTensor out = RefTensor::zeros(in[0].shape, in[0].dtype);
  for (int64_t b = 0; b < out.shape[0]; ++b) {
    const Row row = row_of(in, attrs, b);
    const Shares shares = kShares(row, out.shape[2]);
    if (shares.whole == 0) continue;
    for (int64_t t = 0; t < std::ssize(row.y); ++t) {
      for (int64_t k = 0; k < out.shape[2]; ++k)
        out.at({b, t, k}) = in[4].values[0] * (row.y[t][k] - shares.at[t][k] / shares.whole);
    }
  }
  return {out};
}

struct Size {
  const char* label;
  int64_t rows, frames, classes, labels;
  int64_t least_frames = 0, least_labels = 0;
  int64_t blank = 0;
};

template <SharesOf kShares>
void add_cases(std::vector<OpCase>& cases, const Size& size) {
  const CaseInput logits{{size.rows, size.frames, size.classes}, DType::f32, -2, 2};
  // The blank is the first or the last class, and no label.
  const double low = size.blank == 0 ? 1 : 0,
               high = static_cast<double>(size.classes) - (size.blank == 0 ? 0 : 1);
  const auto lengths = [&](int64_t least, int64_t most) {
    return ids({size.rows}, static_cast<double>(least), static_cast<double>(most + 1));
  };
  OpCase one;
  one.op = "ctc_loss";
  one.label = size.label;
  one.inputs = {logits, ids({size.rows, size.labels}, low, high), lengths(size.least_frames, size.frames),
                lengths(size.least_labels, size.labels)};
  if (size.blank > 0) one.attrs.set("blank", size.blank);
  one.reference = loss<kShares>;
  cases.push_back(one);
  one.op = "ctc_loss_grad";
  one.inputs.push_back(kept_f32({}, 0.5, 2));
  one.reference = loss_grad<kShares>;
  cases.push_back(one);
}

}  // namespace
}  // namespace ctc_reference

std::vector<OpCase> ctc_cases() {
  using namespace ctc_reference;
  std::vector<OpCase> cases;
  for (const Size& size : {Size{"one", 1, 1, 2, 1, 1, 1}, Size{"pairs", 6, 4, 2, 3},
                           Size{"small", 7, 5, 4, 3}, Size{"repeats", 9, 7, 3, 4, 4, 2},
                           Size{"last_blank", 5, 5, 3, 2, 0, 0, 2}, Size{"no_labels", 3, 4, 3, 2, 1, 0},
                           Size{"too_short", 5, 2, 3, 6, 0, 3}, Size{"no_rows", 0, 3, 3, 2}}) {
    add_cases<by_paths>(cases, size);
    // The same by the recursion, which the larger ones rest on.
    const std::string label = std::string(size.label) + "_by_recursion";
    Size again = size;
    again.label = label.c_str();
    add_cases<by_recursion>(cases, again);
  }
  add_cases<by_recursion>(cases, {"words", 4, 40, 29, 12, 20, 1});
  add_cases<by_recursion>(cases, {"long", 2, 150, 7, 40, 100, 10});
  return cases;
}

}  // namespace trireme::bench
