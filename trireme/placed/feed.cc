// See feed.h.
#include "trireme/placed/feed.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::placed {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class Feed {
 public:
  Feed(const Job& job, comm::Transport& transport, Mail& mail, const SourceMessage& message, double patience)
      : job_(job),
        transport_(transport),
        mail_(mail),
        message_(message),
        patience_(patience),
        open_(job.arrivals.size()),
        counts_left_(job.workers()),
        told_(static_cast<size_t>(job.workers())) {
    const size_t tiers = job.workflow.tiers.size();
    report_.requests = std::ssize(job.arrivals);
    report_.bytes.assign(tiers, std::vector<double>(tiers));
    report_.workers.resize(static_cast<size_t>(job.workers()));
    report_.texts.assign(job.arrivals.size(), std::vector<std::string>(job.workflow.ops.size()));
    std::vector<int> workers(static_cast<size_t>(job.workers()));
    std::iota(workers.begin(), workers.end(), 1);
    mail_.open(transport, workers);
    for (const int rank : workers) {
      mail_.take(rank, kNotes, Mail::kAnySize, 1 + job.items(rank), [this](auto bytes) { hear(bytes); });
      mail_.take(rank, kCounts, sizeof(WorkerCount) + tiers * sizeof(double), 1,
                 [this, rank](auto bytes) { add_counts(rank, bytes); });
    }
    for (size_t r = 0; r < open_.size(); ++r)
      open_[r] = static_cast<int>(
          std::ranges::count_if(job.taken[r], [](int route) { return route != place::kNotTaken; }));
  }

  RunReport run() {
    wait_until([&] { return ready_ == job_.workers(); }, "a worker is not ready");
    constexpr std::chrono::milliseconds kAhead{20};
    start_ = last_ = Clock::now() + kAhead;
    for (size_t next = 0; report_.lost.empty() && report_.answered < report_.requests;) {
      while (next < job_.arrivals.size() && Clock::now() >= due(next)) send(next++);
      const Clock::time_point wake = Clock::now() + kLook;
      turn(next < job_.arrivals.size() ? std::min(wake, due(next)) : wake, "requests are not answered");
    }
    const Clock::time_point first = job_.arrivals.empty() ? start_ : due(0);
    report_.seconds = std::max(0.0, seconds_between(first, last_));
    for (int rank = 1; rank <= job_.workers(); ++rank) mail_.send(rank, kOrders, Bytes(1));
    if (report_.lost.empty())
      wait_until([&] { return counts_left_ == 0; }, "a worker does not tell what it did");
    else
      wait_for_the_others();
    return std::move(report_);
  }

 private:
  static constexpr std::chrono::milliseconds kLook{50};  // for workers that are gone

  // After a loss, those that are left tell what they did and go, before this rank does.
  void wait_for_the_others() {
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(2);
    while (Clock::now() < deadline) {
      int gone = 0;
      for (int rank = 1; rank <= job_.workers(); ++rank)
        gone += told_[rank - 1] || transport_.lost(rank) != nullptr;
      if (gone == job_.workers()) return;
      if (!mail_.move()) mail_.idle(Clock::now() + kLook);
    }
  }

  Clock::time_point due(size_t request) const {
    return start_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(job_.arrivals[request]));
  }

  template <typename Done>
  void wait_until(const Done& done, const char* what) {
    heard_ = Clock::now();
    while (report_.lost.empty() && !done()) turn(Clock::now() + kLook, what);
  }
  void turn(Clock::time_point wake, const char* what) {
    if (!mail_.move()) mail_.idle(wake);
    for (int rank = 1; rank <= job_.workers(); ++rank) {
      if (const comm::PeerError* error = transport_.lost(rank); error && report_.lost.empty())
        report_.lost = fmt::format("worker {}: {}", job_.name_of_rank(rank), error->what());
    }
    if (seconds_between(std::max(heard_, start_), Clock::now()) > patience_)
      throw_error("{} for {} s: {} of {} requests are answered; --timeout gives them more time", what,
                  patience_, report_.answered, report_.requests);
  }

  void send(size_t r) {
    const int64_t request = static_cast<int64_t>(r);
    heard_ = Clock::now();
    for (size_t o = 0; o < job_.workflow.ops.size(); ++o) {
      const int op = static_cast<int>(o), to = job_.rank_of(request, op);
      if (to < 0) continue;
      const auto& inputs = job_.workflow.ops[o].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].is_source) continue;
        Bytes bytes(kNumberBytes);
        std::memcpy(bytes.data(), &request, kNumberBytes);
        const Bytes content = message_(inputs[i].index, request);
        bytes.insert(bytes.end(), content.begin(), content.end());
        report_.bytes[job_.source_tier][job_.tier_of_rank(to)] += static_cast<double>(bytes.size());
        mail_.send(to, stream_of(job_, op, static_cast<int>(i)), std::move(bytes));
      }
    }
    if (open_[r] == 0) answered(r);
  }

  void hear(std::span<const std::byte> bytes) {
    heard_ = Clock::now();
    Note note;
    std::memcpy(&note, bytes.data(), sizeof note);
    if (note.request == kReady) {
      ++ready_;
      return;
    }
    const auto text = bytes.subspan(sizeof note);
    report_.texts[note.request][note.op].assign(reinterpret_cast<const char*>(text.data()), text.size());
    if (--open_[note.request] == 0) answered(static_cast<size_t>(note.request));
  }
  void answered(size_t request) {
    ++report_.answered;
    last_ = Clock::now();
    report_.latency.push_back(seconds_between(due(request), last_));
  }

  void add_counts(int rank, std::span<const std::byte> bytes) {
    --counts_left_;
    told_[rank - 1] = true;
    std::memcpy(&report_.workers[rank - 1], bytes.data(), sizeof(WorkerCount));
    std::vector<double> to(job_.workflow.tiers.size());
    std::memcpy(to.data(), bytes.data() + sizeof(WorkerCount), to.size() * sizeof(double));
    for (size_t t = 0; t < to.size(); ++t) report_.bytes[job_.tier_of_rank(rank)][t] += to[t];
  }

  const Job& job_;
  comm::Transport& transport_;
  Mail& mail_;
  const SourceMessage& message_;
  const double patience_;
  std::vector<int> open_;  // by request, ops that are not done
  int ready_ = 0, counts_left_;
  std::vector<bool> told_;  // by worker, its counts
  Clock::time_point start_{}, last_{}, heard_{};
  RunReport report_;
};

}  // namespace

RunReport feed(const Job& job, comm::Transport& transport, Mail& mail, const SourceMessage& message,
               double patience) {
  return Feed(job, transport, mail, message, patience).run();
}

}  // namespace trireme::placed
