// A stretch of memory of which every byte has a tag: who wrote it last. Checks of memory plans and of lists
// of actions play with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace trireme {

class ByteTags {
 public:
  void write(size_t begin, size_t end, int64_t tag) {
    if (begin == end) return;
    cut(begin);
    cut(end);
    stretches_.erase(stretches_.lower_bound(begin), stretches_.lower_bound(end));
    stretches_[begin] = {end, tag};
  }
  // Whether all bytes have this tag.
  bool hold(size_t begin, size_t end, int64_t tag) const {
    if (begin == end) return true;
    auto at = stretches_.upper_bound(begin);
    if (at == stretches_.begin()) return false;
    for (--at; begin < end; ++at) {
      if (at == stretches_.end() || at->first > begin || at->second.end <= begin || at->second.tag != tag)
        return false;
      begin = at->second.end;
    }
    return true;
  }
  size_t bytes() const {  // that have a tag
    size_t sum = 0;
    for (const auto& [begin, stretch] : stretches_) sum += stretch.end - begin;
    return sum;
  }

 private:
  struct Stretch {
    size_t end;
    int64_t tag;
  };
  // Makes a stretch that goes across `at` into two.
  void cut(size_t at) {
    auto found = stretches_.lower_bound(at);
    if (found == stretches_.begin()) return;
    --found;
    if (found->second.end <= at) return;
    stretches_[at] = found->second;
    found->second.end = at;
  }

  std::map<size_t, Stretch> stretches_;  // by where they begin; they do not overlap
};

}  // namespace trireme
