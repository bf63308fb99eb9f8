// ctc_loss: for each row, sums over all alignments by the forward and backward recursions over its labels
// with blanks between and around, in log space. In doubles, unlike the rest: a row of 1,000 frames has a log
// probability of some thousands, of which f32 would leave the gradient three digits; and the work is small
// beside a network's.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/base/error.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace ctc {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// One row: its frames of logits, and its labels.
struct Row {
  const float* logits;
  const int32_t* targets;
  int64_t frames, labels, classes, blank;

  int64_t places() const { return 2 * labels + 1; }  // labels, with blanks between and around
  int64_t class_at(int64_t place) const { return place % 2 == 0 ? blank : targets[place / 2]; }
  // A path may go from a label to the next one without a blank between, unless they are equal.
  bool skips(int64_t place) const {
    return place % 2 == 1 && place >= 3 && targets[place / 2] != targets[place / 2 - 1];
  }
  bool has_alignment() const {
    int64_t needed = labels;
    for (int64_t i = 1; i < labels; ++i) needed += targets[i] == targets[i - 1];
    return needed <= frames;
  }
  double logit(int64_t frame, int64_t k) const { return logits[frame * classes + k]; }
};

// The temporary memory of one thread, in doubles.
struct Memory {
  Memory(int64_t frames, int64_t classes, int64_t labels, double* at)
      : places(2 * labels + 1),
        lse(at),
        forward(lse + frames),
        backward(forward + frames * places),
        shares(backward + 2 * places) {
    total = frames + frames * places + 2 * places + classes;
  }
  int64_t places;
  double *lse, *forward, *backward, *shares;
  int64_t total;
};

void softmax_sums(const Row& row, double* lse) {
  for (int64_t t = 0; t < row.frames; ++t) {
    double top = kNever, sum = 0;
    for (int64_t k = 0; k < row.classes; ++k) top = std::max(top, row.logit(t, k));
    for (int64_t k = 0; k < row.classes; ++k) sum += std::exp(row.logit(t, k) - top);
    lse[t] = top + std::log(sum);
  }
}

// alpha[t s]: of all paths through the first t + 1 frames that end at place s. Returns ln p of all
// alignments.
double forward(const Row& row, const Memory& m) {
  softmax_sums(row, m.lse);
  const int64_t places = row.places();
  if (row.frames == 0) return row.labels == 0 ? 0 : kNever;
  for (int64_t t = 0; t < row.frames; ++t) {
    double* now = m.forward + t * m.places;
    const double* before = now - m.places;
    for (int64_t s = 0; s < places; ++s) {
      double sum = t == 0 ? (s < 2 ? 0 : kNever) : before[s];
      if (t > 0 && s > 0) sum = log_add(sum, before[s - 1]);
      if (t > 0 && row.skips(s)) sum = log_add(sum, before[s - 2]);
      now[s] = sum + row.logit(t, row.class_at(s)) - m.lse[t];
    }
  }
  const double* last = m.forward + (row.frames - 1) * m.places;
  return places == 1 ? last[0] : log_add(last[places - 1], last[places - 2]);
}

// beta[s]: of all paths through the frames after t that go on from place s; `later` is that of frame t + 1.
void step_back(const Row& row, const Memory& m, int64_t t, const double* later, double* now) {
  const int64_t places = row.places();
  if (t + 1 == row.frames) {
    for (int64_t s = 0; s < places; ++s) now[s] = s + 2 >= places ? 0 : kNever;
    return;
  }
  const auto through = [&](int64_t s) { return later[s] + row.logit(t + 1, row.class_at(s)) - m.lse[t + 1]; };
  for (int64_t s = 0; s < places; ++s) {
    double sum = through(s);
    if (s + 1 < places) sum = log_add(sum, through(s + 1));
    if (s + 2 < places && row.skips(s + 2)) sum = log_add(sum, through(s + 2));
    now[s] = sum;
  }
}

// dlogits = dloss · (softmax − the share of alignments that are at the class in this frame).
void gradient(const Row& row, const Memory& m, double dloss, float* out) {
  const double whole = forward(row, m);
  if (whole == kNever) {
    std::fill_n(out, row.frames * row.classes, 0.0f);
    return;
  }
  for (int64_t t = row.frames - 1; t >= 0; --t) {
    double *now = m.backward + (t % 2) * m.places, *later = m.backward + ((t + 1) % 2) * m.places;
    step_back(row, m, t, later, now);
    std::fill_n(m.shares, row.classes, 0.0);
    for (int64_t s = 0; s < row.places(); ++s)
      m.shares[row.class_at(s)] += std::exp(m.forward[t * m.places + s] + now[s] - whole);
    for (int64_t k = 0; k < row.classes; ++k) {
      const double y = std::exp(row.logit(t, k) - m.lse[t]);
      out[t * row.classes + k] = static_cast<float>(dloss * (y - m.shares[k]));
    }
  }
}

// The operands, which both ops begin with.
struct Rows {
  explicit Rows(const KernelContext& context)
      : logits(context.inputs[0].shape),
        most_labels(context.inputs[1].shape[1]),
        values(context.in<float>(0)),
        targets(context.in<int32_t>(1)),
        frames(context.in<int32_t>(2)),
        labels(context.in<int32_t>(3)),
        blank(context.attrs.integer("blank", 0)) {
    for (int64_t b = 0; b < count(); ++b) check(b);
  }
  int64_t count() const { return logits[0]; }
  Row operator[](int64_t b) const {
    return {values + b * logits[1] * logits[2],
            targets + b * most_labels,
            frames[b],
            labels[b],
            logits[2],
            blank};
  }
  void check(int64_t b) const {
    if (frames[b] < 0 || frames[b] > logits[1] || labels[b] < 0 || labels[b] > most_labels)
      throw_error("[ctc_loss] row {} has {} frames and {} labels; 0 to {} and 0 to {} expected", b, frames[b],
                  labels[b], logits[1], most_labels);
    for (int64_t i = 0; i < labels[b]; ++i) {
      const int32_t label = targets[b * most_labels + i];
      if (label < 0 || label >= logits[2] || label == blank)
        throw_error("[ctc_loss] row {} has the label {}; 0 to {} expected, without the blank, {}", b, label,
                    logits[2] - 1, blank);
    }
  }

  Shape logits;
  int64_t most_labels;
  const float* values;
  const int32_t *targets, *frames, *labels;
  int64_t blank;
};

Memory memory_of(const Shape& logits, int64_t labels, std::byte* workspace, int slot) {
  auto* begin = reinterpret_cast<double*>(workspace);
  const int64_t each = Memory(logits[1], logits[2], labels, nullptr).total;
  return {logits[1], logits[2], labels, begin + slot * each};
}

void ctc_loss(const KernelContext& context) {
  const Rows rows(context);
  // The results of rows lie behind the memory of the threads.
  double* losses =
      memory_of(rows.logits, rows.most_labels, context.workspace, pool_of(context).threads()).lse;
  for_each_task(&pool_of(context), rows.count(), [&](int64_t b, int slot) {
    const Row row = rows[b];
    losses[b] = row.has_alignment()
                    ? -forward(row, memory_of(rows.logits, rows.most_labels, context.workspace, slot))
                    : -kNever;
  });
  double loss = 0;
  int64_t counted = 0;
  for (int64_t b = 0; b < rows.count(); ++b) {
    if (losses[b] == -kNever) continue;
    loss += losses[b];
    ++counted;
  }
  *context.out<float>(0) = static_cast<float>(loss);
  *context.out<float>(1) = static_cast<float>(counted);
}

void ctc_loss_grad(const KernelContext& context) {
  const double dloss = *context.in<float>(4);
  const Rows rows(context);
  for_each_task(&pool_of(context), rows.count(), [&](int64_t b, int slot) {
    Row row = rows[b];
    const int64_t each = rows.logits[1] * rows.logits[2];
    float* out = context.out<float>(0) + b * each;
    std::fill_n(out + row.frames * row.classes, each - row.frames * row.classes, 0.0f);
    if (row.has_alignment()) {
      gradient(row, memory_of(rows.logits, rows.most_labels, context.workspace, slot), dloss, out);
    } else {
      std::fill_n(out, row.frames * row.classes, 0.0f);
    }
  });
}

size_t workspace(const KernelShape& shape, int64_t more) {
  const Shape& logits = shape.inputs[0].shape;
  const int64_t labels = shape.inputs[1].shape[1];
  const int64_t each = Memory(logits[1], logits[2], labels, nullptr).total;
  return static_cast<size_t>(each * shape.threads + more) * sizeof(double);
}

}  // namespace
}  // namespace ctc

void add_ctc_loss(KernelTable& table) {
  table.add("ctc_loss", DType::f32, {ctc::ctc_loss, [](const KernelShape& shape) {
                                       return ctc::workspace(shape, shape.inputs[0].shape[0]);
                                     }});
  table.add("ctc_loss_grad", DType::f32,
            {ctc::ctc_loss_grad, [](const KernelShape& shape) { return ctc::workspace(shape, 0); }});
}

}  // namespace trireme::cpu
