// Forking ranks and their meeting place; see fork_ranks.h.
#include "tests/support/fork_ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::test {
namespace {

constexpr int kMaxRanks = 64;
constexpr double kExchangeSeconds = 30;

using Clock = std::chrono::steady_clock;

struct Post {
  std::atomic<uint32_t> round;  // of the exchange that it belongs to, from 1
  uint32_t bytes;
  std::array<char, 64> what;
  std::array<char, 4096> data;
};

struct Shared {
  std::array<std::array<Post, kMaxRanks>, 2> posts;  // by parity of the round
  std::array<std::atomic<int>, kMaxRanks> pids;
  std::array<std::array<char, 4096>, kMaxRanks> texts;
  std::array<volatile uint64_t, kSharedWords> words;
};

class ForkRendezvous : public comm::Rendezvous {
 public:
  ForkRendezvous(Shared& shared, int rank, int ranks) : shared_(shared), rank_(rank), ranks_(ranks) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    ++round_;
    auto& posts = shared_.posts[round_ % 2];
    Post& post = posts[rank_];
    TRIREME_CHECK(mine.size() <= post.data.size());
    TRIREME_CHECK(what.size() < post.what.size());
    std::memcpy(post.data.data(), mine.data(), mine.size());
    std::memcpy(post.what.data(), what.data(), what.size());
    post.what[what.size()] = '\0';
    post.bytes = static_cast<uint32_t>(mine.size());
    post.round.store(round_);

    std::vector<std::string> all;
    const auto deadline = Clock::now() + std::chrono::duration<double>(kExchangeSeconds);
    for (int r = 0; r < ranks_; ++r) {
      while (posts[r].round.load() < round_) {
        if (Clock::now() > deadline) throw_error("rank {} did not come to \"{}\"", r, what);
        usleep(100);
      }
      if (what != posts[r].what.data()) {
        throw_error("rank {} is in \"{}\", rank {} in \"{}\"", r, posts[r].what.data(), rank_, what);
      }
      all.emplace_back(posts[r].data.data(), posts[r].bytes);
    }
    return all;
  }

 private:
  Shared& shared_;
  int rank_;
  int ranks_;
  uint32_t round_ = 0;
};

class Rank : public ForkedRank {
 public:
  Rank(Shared& shared, int rank, int ranks) : shared_(shared), rendezvous_(shared, rank, ranks) {}
  comm::Rendezvous& rendezvous() override { return rendezvous_; }
  int rank() const override { return rendezvous_.rank(); }
  int ranks() const override { return rendezvous_.ranks(); }
  int pid_of(int rank) const override { return shared_.pids[rank].load(); }
  volatile uint64_t* words() override { return shared_.words.data(); }

 private:
  Shared& shared_;
  ForkRendezvous rendezvous_;
};

[[noreturn]] void run_rank(Shared& shared, int rank, int ranks,
                           const std::function<std::string(ForkedRank&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  shared.pids[rank].store(getpid());
  int code = 0;
  std::string text;
  try {
    Rank self(shared, rank, ranks);
    text = body(self);
    code = ::testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    text = error.what();
    code = 1;
  }
  auto& kept = shared.texts[rank];
  std::strncpy(kept.data(), text.c_str(), kept.size() - 1);
  fflush(nullptr);
  _exit(code);  // the parent's test framework must not end in a child
}

}  // namespace

std::vector<RankEnd> run_ranks(int ranks, const std::function<std::string(ForkedRank&)>& body,
                               double timeout_seconds) {
  TRIREME_CHECK(ranks <= kMaxRanks);
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TRIREME_CHECK(memory != MAP_FAILED);
  Shared& shared = *static_cast<Shared*>(memory);
  fflush(nullptr);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };

  std::vector<pid_t> pids;
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = fork();
    TRIREME_CHECK(pid >= 0);
    if (pid == 0) run_rank(shared, r, ranks, body);
    pids.push_back(pid);
  }
  std::vector<RankEnd> ends(ranks);
  int running = ranks;
  while (running > 0) {
    for (int r = 0; r < ranks; ++r) {
      int status = 0;
      if (pids[r] == 0 || waitpid(pids[r], &status, WNOHANG) != pids[r]) continue;
      ends[r] = {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                 .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                 .text = shared.texts[r].data(),
                 .seconds = seconds()};
      pids[r] = 0;
      --running;
    }
    if (seconds() > timeout_seconds) {
      for (pid_t pid : pids) {
        if (pid != 0) kill(pid, SIGKILL);
      }
    }
    usleep(1000);
  }
  munmap(memory, sizeof(Shared));
  return ends;
}

void expect_all_ok(const std::vector<RankEnd>& ends) {
  for (size_t r = 0; r < ends.size(); ++r) {
    EXPECT_TRUE(ends[r].ok()) << "rank " << r << " of " << ends.size() << ": exit code " << ends[r].exit_code
                              << ", signal " << ends[r].signal << ", " << ends[r].text;
  }
}

}  // namespace trireme::test
