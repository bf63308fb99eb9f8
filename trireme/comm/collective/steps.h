// Steps: who sends which chunk to whom. A collective for P ranks is, for each rank, an ordered list of steps
// on numbered chunks of the vector. The engine runs it on any transport, the checker proves it, the cost
// model and the simulator time it: nothing else describes an algorithm.
//
// Meaning of a rank's list. Steps that touch the same chunk happen in list order, so a send carries what all
// earlier receives into that chunk have made of it, and additions have a fixed order. (Two sends of a chunk
// only read it, and may overlap.) Steps on different chunks are independent. Messages between one pair of
// ranks are sent in list order and arrive in that order. A receive takes its message when it comes, if need
// be beside the chunk, and is applied when its turn is there; so two ranks may send each other the same chunk
// and then add what they got (butterfly) without waiting in a circle.
//
// Chunks 0 … chunks-1 are parts of the vector, one after another. A step may cover several neighbours at
// once: one message, one latency (halving and doubling send half of all chunks in a round). Chunks from
// `chunks` on are scratch, private to a rank, each as large as the data chunk that sized_as() names; they
// begin undefined, and a step covers one of them.
//
// Steps may rely on chunks that are all of one size: an all-to-all in which ranks pass on what others give,
// whose sizes they could not know otherwise. Then a chunk fits anywhere, and a step may cover several
// neighbours in scratch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::comm {

enum class Action : uint8_t { copy, add };  // "add" stands for the ReduceOp of the call

struct Step {
  enum class Kind : uint8_t { send, receive, local };
  Kind kind;
  Action action;      // of a receive or a local step
  int32_t peer;       // of a send or a receive
  int32_t chunk;      // sent from, or received / combined into
  int32_t from;       // of a local step: the chunk that is copied or added into `chunk`
  int32_t count = 1;  // neighbouring chunks from `chunk` on; of a send and its receive the same
};

// Neighbouring data chunks, first … first + count - 1.
struct Chunks {
  int first;
  int count;
};

class Steps {
 public:
  Steps(int ranks, int chunks);
  // Lists that were written otherwise than by send() and local(), for the checker to judge.
  static Steps from_lists(int chunks, std::vector<std::vector<Step>> lists);

  // From now on, all chunks are of one size; who runs the Steps has to see to it.
  void expect_even_chunks() { even_ = true; }

  // Adds a scratch chunk, as large as data chunk `like`, and returns its number.
  int scratch(int like = 0);

  // Rank `from` sends its chunk to `to`, which copies it into or adds it to its chunk of the same number.
  // Rank and chunk numbers are taken modulo `ranks` and `chunks`, so that ring(r - k) needs no care.
  void send(int from, int to, int chunk, Action action);
  // The same of several chunks in one message. No modulo here and below; nothing to send sends nothing.
  void send(int from, int to, Chunks chunks, Action action);
  // The same, received into another chunk than the one sent (scratch, mostly).
  void send(int from, int to, int chunk, int into_chunk, Action action);
  void send(int from, int to, Chunks chunks, int into_first, Action action);
  // On one rank: into = from, or into += from.
  void local(int rank, int into, int from, Action action);

  // All at once: of what body() adds, every send of a rank comes before its receives, so what is sent is what
  // was there before. No local() inside.
  template <typename Body>
  void round(const Body& body) {
    begin_round();
    body();
    end_round();
  }
  template <typename Body>
  void each(const Body& body) {
    round([&] {
      for (int rank = 0; rank < ranks(); ++rank) body(rank);
    });
  }

  int ranks() const { return static_cast<int>(lists_.size()); }
  int chunks() const { return chunks_; }
  int scratch_chunks() const { return static_cast<int>(scratch_like_.size()); }
  bool has_even_chunks() const { return even_; }
  bool is_scratch(int chunk) const { return chunk >= chunks_; }
  // A data chunk that has the size of any chunk; the same one for chunks of the same size. Of data chunks
  // that may differ in size, themselves.
  int sized_as(int chunk) const {
    if (even_) return 0;
    return is_scratch(chunk) ? scratch_like_[chunk - chunks_] : chunk;
  }
  std::span<const Step> of(int rank) const { return lists_[rank]; }

 private:
  void message(int from, int to, int chunk, int into_chunk, int count, Action action);
  void begin_round();
  void end_round();

  int chunks_;
  bool even_ = false;
  std::vector<int> scratch_like_;
  std::vector<std::vector<Step>> lists_;
  bool in_round_ = false;
  std::vector<std::vector<Step>> round_receives_;  // of each rank, of the round under way
};

}  // namespace trireme::comm
