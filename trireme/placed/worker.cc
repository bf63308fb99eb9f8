// See worker.h.
#include "trireme/placed/worker.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::placed {
namespace {

constexpr double kLateShare = 1.02;  // of the time that an item has

Clock::duration of_seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Worker {
 public:
  Worker(const Job& job, int rank, comm::Transport& transport, Mail& mail, const Maker& make)
      : job_(job), rank_(rank), mail_(mail), make_(make), bytes_to_(job.workflow.tiers.size()) {
    std::vector<int> others(static_cast<size_t>(job.ranks()));
    std::iota(others.begin(), others.end(), 0);
    std::erase_if(others, [&](int other) { return other == 0 || other == rank; });
    mail_.open(transport, others);
    mail_.take(0, kOrders, 1, 1, [this](auto) { ended_ = true; });
    for (size_t o = 0; o < job.placed.flow.size(); ++o) expect_inputs(static_cast<int>(o));
  }

  void run() {
    note({kReady, rank_ - 1}, "");
    constexpr std::chrono::milliseconds kPatience{50};
    while (!ended_) {
      mail_.move();
      if (ready_.empty())
        mail_.idle(Clock::now() + kPatience);
      else
        make_next();
    }
    Bytes counts(sizeof count_ + bytes_to_.size() * sizeof(double));
    std::memcpy(counts.data(), &count_, sizeof count_);
    std::memcpy(counts.data() + sizeof count_, bytes_to_.data(), bytes_to_.size() * sizeof(double));
    mail_.send(0, kCounts, std::move(counts));
    mail_.flush(Clock::now() + std::chrono::seconds(5));
  }

 private:
  struct Item {
    int64_t request = 0;
    int op = 0;
    Clock::time_point since;  // all of its messages are there
    std::vector<Bytes> inputs;
  };

  void expect_inputs(int op) {
    const auto& routes = job_.placed.flow[op].routes;
    if (std::ranges::find(routes, rank_ - 1, &place::Route::server) == routes.end()) return;
    const auto& inputs = job_.workflow.ops[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int input = static_cast<int>(i);
      for (int peer = 0; peer < job_.ranks(); ++peer) {
        if (peer == rank_) continue;  // what it sends to itself is delivered at once
        mail_.take(peer, stream_of(job_, op, input), job_.message_bytes(op, input),
                   job_.messages(peer, rank_, op, input),
                   [this, op, input](std::span<const std::byte> message) { deliver(op, input, message); });
      }
    }
  }

  void deliver(int op, int input, std::span<const std::byte> message) {
    int64_t request = 0;
    std::memcpy(&request, message.data(), sizeof request);
    Item& item = waiting_[{request, op}];
    item.inputs.resize(job_.workflow.ops[op].inputs.size());
    item.inputs[input].assign(message.begin() + kNumberBytes, message.end());
    if (++there_[{request, op}] < static_cast<int>(item.inputs.size())) return;
    item.request = request;
    item.op = op;
    item.since = Clock::now();
    ready_.push_back(std::move(item));
    waiting_.erase({request, op});
    there_.erase({request, op});
  }

  // The next item begins when this one would have ended on such a worker, whatever it waited for here.
  void make_next() {
    const Item item = std::move(ready_.front());
    ready_.pop_front();
    const int route = job_.taken[item.request][item.op];
    const double seconds = job_.placed.flow[item.op].routes[route].seconds;
    const Clock::time_point begin = Clock::now();
    const Made made = make_(item.op, item.inputs);
    const double computed = std::chrono::duration<double>(Clock::now() - begin).count();
    ++count_.items;
    count_.computed += computed;
    if (computed > kLateShare * seconds) ++count_.late;
    free_at_ = std::max(item.since, free_at_) + of_seconds(seconds);
    while (Clock::now() < free_at_) {
      if (!mail_.move()) mail_.idle(free_at_);
    }
    free_at_ = std::max(free_at_, begin + of_seconds(computed));
    send_on(item, made);
  }

  void send_on(const Item& item, const Made& made) {
    Bytes message(kNumberBytes + made.output.size());
    std::memcpy(message.data(), &item.request, kNumberBytes);
    std::ranges::copy(made.output, message.begin() + kNumberBytes);
    for (size_t o = item.op + 1; o < job_.workflow.ops.size(); ++o) {
      const int op = static_cast<int>(o), to = job_.rank_of(item.request, op);
      if (to < 0) continue;
      const auto& inputs = job_.workflow.ops[o].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].is_source || inputs[i].index != item.op) continue;
        const int input = static_cast<int>(i);
        if (message.size() != job_.message_bytes(op, input))
          throw_error("op '{}' makes messages of {} bytes where {} were promised",
                      job_.workflow.ops[item.op].name, message.size(), job_.message_bytes(op, input));
        bytes_to_[job_.tier_of_rank(to)] += static_cast<double>(message.size());
        if (to == rank_)
          deliver(op, input, message);
        else
          mail_.send(to, stream_of(job_, op, input), message);
      }
    }
    note({item.request, item.op}, made.text);
  }

  void note(const Note& note, const std::string& text) {
    Bytes bytes(sizeof note + text.size());
    std::memcpy(bytes.data(), &note, sizeof note);
    std::memcpy(bytes.data() + sizeof note, text.data(), text.size());
    mail_.send_any_size(0, kNotes, std::move(bytes));
  }

  const Job& job_;
  const int rank_;
  Mail& mail_;
  const Maker& make_;
  using Key = std::pair<int64_t, int>;  // request and op
  std::map<Key, Item> waiting_;
  std::map<Key, int> there_;  // messages
  std::deque<Item> ready_;
  Clock::time_point free_at_{};
  WorkerCount count_;
  std::vector<double> bytes_to_;  // by tier
  bool ended_ = false;
};

}  // namespace

uint32_t stream_of(const Job& job, int op, int input) {
  uint32_t stream = kFirstInput + static_cast<uint32_t>(input);
  for (int before = 0; before < op; ++before)
    stream += static_cast<uint32_t>(job.workflow.ops[before].inputs.size());
  return stream;
}

void work(const Job& job, int rank, comm::Transport& transport, Mail& mail, const Maker& make) {
  Worker(job, rank, transport, mail, make).run();
}

}  // namespace trireme::placed
