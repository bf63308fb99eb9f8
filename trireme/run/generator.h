// Texts that a language model goes on with, several at a time. Each has a line of keys and values of its own,
// so that texts of any length begin and end independently of each other, and one token more of all of them is
// one forward pass. What is computed for a text does not depend on the others, on a CPU to the bit.
//
// Several ranks share a model by its layouts along the axis `tensor`: each has some of the heads, with their
// keys and values. All make the same calls, and get the same logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/models/model.h"
#include "trireme/runtime/runner.h"
#include "trireme/train/trainer.h"

namespace trireme {

class Generator {
 public:
  // `texts`: how many there are at most. model.vocab must be set. Weights are undefined until they are
  // filled. Throws Error for a plan with other axes than `tensor`, or whose layouts do not fit the model.
  Generator(const Model& model, Device& device, int texts = 1, const RankOptions& ranks = {});
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  std::vector<PartView> weights();  // that this rank has, to be filled
  int texts() const { return static_cast<int>(texts_.size()); }
  int64_t vocab() const { return model_.vocab; }
  const Program& program() const { return executor_.program(); }

  // Of a model of pairs (InputKind::kPairs) the prompt is the source, without its end; the text is what the
  // model makes of it, which is over at end() or when it has longest_translation() tokens.
  bool translates() const { return translates_; }
  int64_t longest_translation() const { return model_.seq; }
  int32_t end() const { return static_cast<int32_t>(model_.vocab - 1); }

  // Throws Error if a prompt is empty, or is the source of a pair and too long; or has tokens that the model
  // does not know.
  void check(std::span<const int32_t> prompt) const;
  // Text number `text` is now this prompt. A token sees the last model.seq tokens at most: when they are
  // full, the older half is left out.
  void begin(int text, std::span<const int32_t> prompt);
  // How many of its tokens are to be read before next() may be asked for it.
  int64_t unread(int text) const;
  // Reads some of them; returns how many.
  int64_t read(int text);
  // The logits for what follows these texts, vocab() of each in their order, until the next call.
  std::span<const float> next(std::span<const int> texts);
  void append(int text, int32_t token);
  void forget(int text) { texts_[text].known = 0; }  // what was read of it, so that it is read again

 private:
  struct Text {
    std::vector<int32_t> tokens;
    size_t begin = 0;                  // of the window
    size_t known = 0;                  // tokens of the window whose keys and values are kept
    std::vector<int32_t> source = {};  // of a model of pairs, with its end
    std::span<const int32_t> window() const { return std::span(tokens).subspan(begin); }
  };
  // A segment that reads so many tokens, or goes on with so many texts.
  struct Sized {
    int64_t size;
    const ActionList* list;
  };

  void run(const ActionList& list);
  void set(int segment, std::string_view name, std::span<const int32_t> values);

  ModelOptions model_;
  bool decodes_;     // whether the model can go on token by token
  bool translates_;  // whether it takes pairs
  Executor executor_;
  Runner runner_;
  std::vector<Sized> reads_, nexts_;  // smallest first
  std::vector<Text> texts_;
  std::vector<int32_t> ids_, lines_, first_, positions_, last_, sources_, lengths_;  // inputs of the next run
  std::vector<float> logits_;
};

}  // namespace trireme
