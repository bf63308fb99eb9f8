// A block and a query that live at the same moment meet in the tree: either a part of the block lies in or
// below a part of the query (at_times), or above one (all_along). A life has some dozens of such nodes.
#include "trireme/passes/first_fit.h"

#include <algorithm>
#include <bit>

#include "trireme/base/error.h"

namespace trireme {

FirstFit::FirstFit(int moments)
    : all_{0, static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, moments)))) - 1},
      spans_(2 * (static_cast<size_t>(all_.end) + 1)) {}

template <typename See>
void FirstFit::visit(Moments life, const See& see, size_t node, Moments of_node) {
  if (life.begin <= of_node.begin && of_node.end <= life.end) return see(spans_[node], Is::kPart);
  see(spans_[node], Is::kAbovePart);
  const int middle = of_node.begin + (of_node.end - of_node.begin) / 2;
  if (life.begin <= middle) visit(life, see, 2 * node, {of_node.begin, middle});
  if (life.end > middle) visit(life, see, 2 * node + 1, {middle + 1, of_node.end});
}

size_t FirstFit::place(int begin, int end, size_t bytes) {
  const Moments life{begin, end};
  return place({&life, 1}, bytes);
}

size_t FirstFit::place(std::span<const Moments> lives, size_t bytes) {
  for (const Moments& life : lives) {
    TRIREME_CHECK(0 <= life.begin);
    TRIREME_CHECK(life.begin <= life.end);
    TRIREME_CHECK(life.end <= all_.end);
  }
  const size_t offset = lowest(lives, bytes);
  const Run run{offset, offset + bytes};
  const auto cover = [&](Span& span, Is is) {
    if (is == Is::kPart) add(span.all_along, run);
    add(span.at_times, run);
  };
  for (const Moments& life : lives) visit(life, cover, 1, all_);
  total_bytes_ = std::max(total_bytes_, run.end);
  return offset;
}

size_t FirstFit::lowest(std::span<const Moments> lives, size_t bytes) {
  std::vector<const Runs*> lists;
  const auto note = [&](const Span& span, Is is) {
    const Runs& runs = is == Is::kPart ? span.at_times : span.all_along;
    if (!runs.empty()) lists.push_back(&runs);
  };
  for (const Moments& life : lives) visit(life, note, 1, all_);
  // Each list pushes the block up past what is in its way, until none has anything there.
  size_t offset = 0;
  for (size_t content = 0, i = 0; content < lists.size(); i = (i + 1) % lists.size()) {
    ++looks_;
    const size_t before = offset;
    for (auto run = std::ranges::upper_bound(*lists[i], offset, {}, &Run::end);
         run != lists[i]->end() && run->begin < offset + bytes; ++run) {
      offset = run->end;
      ++looks_;
    }
    content = offset == before ? content + 1 : 1;
  }
  return offset;
}

void FirstFit::add(Runs& runs, Run run) {
  const auto first = std::ranges::lower_bound(runs, run.begin, {}, &Run::end);
  auto last = first;
  for (; last != runs.end() && last->begin <= run.end; ++last) {
    run.begin = std::min(run.begin, last->begin);
    run.end = std::max(run.end, last->end);
  }
  if (first == last) {
    runs.insert(first, run);
  } else {
    *first = run;
    runs.erase(first + 1, last);
  }
}

}  // namespace trireme
