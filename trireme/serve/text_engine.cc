// See text_engine.h. One thread owns the generator; each turn of it reads some of the prompts that are new,
// then adds one token to every text whose prompt is read.
#include "trireme/serve/text_engine.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"

namespace trireme::serve {

using End = WrittenText::End;

std::optional<int32_t> WrittenText::next() {
  std::unique_lock lock(mutex_);
  // The engine looks at the time between tokens; here it is looked at where none come.
  constexpr auto kLate = std::chrono::seconds(1);
  changed_.wait_until(lock, deadline_ + kLate, [&] { return !tokens_.empty() || end_ != End::kOpen; });
  if (tokens_.empty()) {
    if (end_ == End::kOpen) end_ = End::kTime;
    return {};
  }
  const int32_t token = tokens_.front();
  tokens_.pop_front();
  return token;
}

End WrittenText::end() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}
std::string WrittenText::problem() const {
  const std::scoped_lock lock(mutex_);
  return problem_;
}
void WrittenText::add(int32_t token) {
  const std::scoped_lock lock(mutex_);
  tokens_.push_back(token);
  changed_.notify_all();
}
void WrittenText::finish(End end, const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  if (end_ != End::kOpen) return;
  end_ = end;
  problem_ = problem;
  changed_.notify_all();
}

TextEngine::TextEngine(Generator& generator, const Limits& limits)
    : generator_(generator), limits_(limits), queue_(limits.waiting) {
  for (int line = generator.texts(); line-- > 0;) free_.push_back(line);
  worker_ = std::thread([this] { work(); });
}

TextEngine::~TextEngine() {
  if (worker_.joinable()) drain(0);
}

std::shared_ptr<WrittenText> TextEngine::submit(TextJob job) {
  generator_.check(job.prompt);
  job.options.validate();
  const auto time =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.seconds));
  auto text = std::make_shared<WrittenText>(Clock::now() + time);
  queue_.add({Waiting{std::move(job), text}});
  ++texts_;
  return text;
}

int TextEngine::drain(double seconds) {
  queue_.close();
  {
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_done_; })) cut_ = true;
  }
  worker_.join();
  return cut_texts_;
}

TextEngine::Counts TextEngine::counts() const {
  return {texts_, read_tokens_, tokens_, steps_, running_count_, static_cast<int>(queue_.size())};
}

void TextEngine::finish(Running& running, End end, const std::string& problem) {
  if (end == End::kShutdown) ++cut_texts_;
  --running_count_;
  running.text->finish(end, problem);
  free_.push_back(running.line);
  running.line = -1;  // it goes with end_what_is_over()
}

void TextEngine::start(Waiting job) {
  Running running{std::move(job), free_.back()};
  free_.pop_back();
  if (!cut_) generator_.begin(running.line, running.job.prompt);
  running_.push_back(std::move(running));
  ++running_count_;
}

void TextEngine::end_what_is_over() {
  const Clock::time_point now = Clock::now();
  for (Running& running : running_) {
    if (running.line < 0) continue;
    if (cut_)
      finish(running, End::kShutdown);
    else if (running.text->left_ || now >= running.text->deadline_)
      finish(running, End::kTime);
  }
  std::erase_if(running_, [](const Running& running) { return running.line < 0; });
}

void TextEngine::read_prompts() {
  int64_t left = limits_.read_tokens;
  for (const Running& running : running_) {
    while (left > 0 && generator_.unread(running.line) > 0) {
      const int64_t count = generator_.read(running.line);
      left -= count;
      read_tokens_ += count;
    }
  }
}

void TextEngine::next_tokens() {
  std::vector<Running*> ready;
  std::vector<int> lines;
  for (Running& running : running_) {
    if (generator_.unread(running.line) > 0) continue;
    ready.push_back(&running);
    lines.push_back(running.line);
  }
  if (ready.empty()) return;
  const std::span<const float> logits = generator_.next(lines);
  ++steps_;
  const auto vocab = static_cast<size_t>(generator_.vocab());
  for (size_t row = 0; row < ready.size(); ++row) {
    Running& running = *ready[row];
    const int32_t token =
        draw_token_at(running.drawn++, logits.subspan(row * vocab, vocab), running.job.options);
    ++tokens_;
    if (token == running.job.end) {
      finish(running, End::kEndOfText);
      continue;
    }
    running.text->add(token);
    if (running.drawn == running.job.options.tokens)
      finish(running, End::kLength);
    else
      generator_.append(running.line, token);
  }
}

void TextEngine::work() {
  using When = WorkQueue<Waiting>::When;
  for (;;) {
    std::vector<Waiting> jobs = queue_.take(free_.size(), running_.empty() ? When::kWait : When::kNow);
    if (jobs.empty() && running_.empty()) break;
    try {
      for (Waiting& job : jobs) start(std::move(job));
      end_what_is_over();
      read_prompts();
      next_tokens();
    } catch (const std::exception& error) {
      for (Running& running : running_) {
        if (running.line >= 0) finish(running, End::kProblem, error.what());
      }
    }
    end_what_is_over();
  }
  const std::scoped_lock lock(mutex_);
  is_done_ = true;
  done_.notify_all();
}

}  // namespace trireme::serve
