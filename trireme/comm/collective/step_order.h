// Which earlier steps of a rank's list a step has to wait for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// Steps are added in list order. One that writes a chunk waits for the last that wrote it and for all that
// have read it since; one that reads waits for the last that wrote. What was before these, they have waited
// for.
class StepOrder {
 public:
  explicit StepOrder(int chunks) : chunks_(chunks) {}

  // Appends the numbers of the steps to wait for, each once.
  void add(const Step& step, uint32_t number, std::vector<uint32_t>& before) {
    const auto begin = static_cast<std::ptrdiff_t>(before.size());
    for (int i = step.chunk; i < step.chunk + step.count; ++i) {
      if (step.kind == Step::Kind::send) {
        read(i, number, before);
      } else {
        write(i, number, before);
      }
    }
    if (step.kind == Step::Kind::local) read(step.from, number, before);
    std::sort(before.begin() + begin, before.end());
    before.erase(std::unique(before.begin() + begin, before.end()), before.end());
  }

 private:
  struct Chunk {
    int64_t writer = -1;
    std::vector<uint32_t> readers;  // since it was written
  };

  void read(int chunk, uint32_t number, std::vector<uint32_t>& before) {
    if (chunks_[chunk].writer >= 0) before.push_back(static_cast<uint32_t>(chunks_[chunk].writer));
    chunks_[chunk].readers.push_back(number);
  }
  void write(int chunk, uint32_t number, std::vector<uint32_t>& before) {
    if (chunks_[chunk].writer >= 0) before.push_back(static_cast<uint32_t>(chunks_[chunk].writer));
    before.insert(before.end(), chunks_[chunk].readers.begin(), chunks_[chunk].readers.end());
    chunks_[chunk].readers.clear();
    chunks_[chunk].writer = number;
  }

  std::vector<Chunk> chunks_;
};

// Which receives of a rank may wait for their turn: for every step of the rank's list, true for a receive
// that may be left waiting until all earlier steps on its chunks are done, because none of them needs this
// message to be taken first. It can then be combined into its place as it comes. In a ring that is so for all
// of them; in a butterfly, where both ranks send a chunk before either receives it, for none: those are
// received beside the chunk.
std::vector<bool> receives_in_turn(const Steps& steps, int rank);

}  // namespace trireme::comm
