// Goes on with the texts of many clients at a time. A text joins the others as soon as one of them has ended,
// between two tokens; what it becomes depends on its own prompt, options and seed alone (run/generator.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/run/generator.h"
#include "trireme/run/sampler.h"
#include "trireme/serve/options.h"
#include "trireme/serve/work_queue.h"

namespace trireme::serve {

// A text that is being written: the engine puts tokens in, one client takes them out.
class WrittenText {
 public:
  explicit WrittenText(Clock::time_point deadline) : deadline_(deadline) {}

  // The next token, which is waited for; nothing when the text has ended.
  std::optional<int32_t> next();
  // Why it has ended: so many tokens as were asked for, the token that ends a text, its time, the server, or
  // a problem. kOpen: not yet.
  enum class End { kOpen, kLength, kEndOfText, kTime, kShutdown, kProblem };
  End end() const;
  std::string problem() const;
  // Nobody wants more of it.
  void leave() { left_ = true; }

 private:
  friend class TextEngine;
  void add(int32_t token);
  void finish(End end, const std::string& problem = "");

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int32_t> tokens_;
  End end_ = End::kOpen;
  std::string problem_;
  const Clock::time_point deadline_;
  std::atomic<bool> left_ = false;
};

struct TextJob {
  std::vector<int32_t> prompt;
  SampleOptions options;
  std::optional<int32_t> end;  // the token that ends the text
};

class TextEngine {
 public:
  // The generator's weights are there, and it outlives the engine.
  TextEngine(Generator& generator, const Limits& limits);
  ~TextEngine();  // what is not done is cut off
  TextEngine(const TextEngine&) = delete;
  TextEngine& operator=(const TextEngine&) = delete;

  // Throws Error if the model can not go on from the prompt; RequestError if too many wait, or it is shut
  // down.
  std::shared_ptr<WrittenText> submit(TextJob job);
  // Takes no more, and waits until all is done; after so many seconds cuts off what is left, and returns how
  // many texts those were. Once.
  int drain(double seconds);

  struct Counts {
    int64_t texts, read_tokens, tokens,
        steps;             // since the beginning; a step is one token of all texts under way
    int running, waiting;  // now
  };
  Counts counts() const;

 private:
  struct Waiting {
    TextJob job;
    std::shared_ptr<WrittenText> text;
  };
  struct Running : Waiting {
    int line;
    int64_t drawn = 0;
  };

  void work();
  void start(Waiting job);
  void end_what_is_over();
  void read_prompts();
  void next_tokens();
  void finish(Running& running, WrittenText::End end, const std::string& problem = "");

  Generator& generator_;
  const Limits limits_;
  WorkQueue<Waiting> queue_;
  std::vector<Running> running_;   // in the order in which they came
  std::vector<int> free_;          // lines
  std::atomic<bool> cut_ = false;  // nothing goes on
  int cut_texts_ = 0;
  std::atomic<int64_t> texts_ = 0, read_tokens_ = 0, tokens_ = 0, steps_ = 0;
  std::atomic<int> running_count_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::thread worker_;
};

}  // namespace trireme::serve
