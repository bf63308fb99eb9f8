// What only processes can suffer: being killed, being stopped, ending without a word. Every other rank says
// which rank it was, soon, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/support/fork_ranks.h"
#include "tests/support/times.h"
#include "trireme/comm/group.h"
#include "trireme/comm/transport/shm/shm_transport.h"

namespace trireme::comm {
namespace {

using ::testing::HasSubstr;

GroupOptions with_timeout(double seconds) {
  GroupOptions options;
  options.timeout_seconds = seconds;
  return options;
}

// One call after another, for ever.
using Loop = std::function<void(Group&, Transport&)>;

const std::vector<std::pair<std::string, Loop>>& loops() {
  const auto reduce = [](int64_t count, Algorithm algorithm) -> Loop {
    return [=](Group& group, Transport&) {
      std::vector<float> data(count, 1);
      while (true) group.all_reduce(data.data(), count, DType::f32, ReduceOp::sum, {algorithm}).wait();
    };
  };
  static const std::vector<std::pair<std::string, Loop>> all = {
      {"mail", reduce(10, Algorithm::native)},
      {"staged", reduce(1 << 20, Algorithm::native)},
      {"direct",
       [](Group& group, Transport& transport) {
         const auto memory = transport.allocate(4 << 20);
         while (true) {
           group.all_reduce(memory->bytes().data(), 1 << 20, DType::f32, ReduceOp::sum, {Algorithm::native})
               .wait();
         }
       }},
      {"ring", reduce(100000, Algorithm::ring)},
      {"barrier", [](Group& group, Transport&) {
         while (true) group.barrier().wait();
       }}};
  return all;
}

double now_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

TEST(ShmFaults, kill_ends_every_wait_within_a_second) {
  for (const auto& [name, loop] : loops()) {
    const auto ends = test::run_ranks(4, [&](test::ForkedRank& self) -> std::string {
      const auto transport = make_shm_transport(self.rendezvous());
      Group group(*transport, 0, all_ranks(4), with_timeout(30));
      group.barrier().wait();
      if (self.rank() == 2) {
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          self.words()[0] = static_cast<uint64_t>(now_seconds() * 1e6);
          kill(getpid(), SIGKILL);
        }).detach();
      }
      try {
        loop(group, *transport);
      } catch (const PeerError& error) {
        const double late = now_seconds() - static_cast<double>(self.words()[0]) * 1e-6;
        EXPECT_LT(late, 1 + slack_seconds()) << name;
        EXPECT_EQ(error.failure(), Failure::died) << name;
        EXPECT_EQ(error.rank(), 2) << name;
        EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank 2 (pid {}) died", self.pid_of(2)))) << name;
      }
      return "";
    });
    for (int r = 0; r < 4; ++r) {
      if (r == 2) {
        EXPECT_EQ(ends[r].signal, SIGKILL);
      } else {
        EXPECT_TRUE(ends[r].ok()) << name << ", rank " << r << ": " << ends[r].text << ends[r].signal;
      }
    }
  }
}

TEST(ShmFaults, a_stopped_rank_is_named_after_the_timeout) {
  const auto ends = test::run_ranks(3, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Group group(*transport, 0, all_ranks(3), with_timeout(0.5));
    group.barrier().wait();
    if (self.rank() == 1) {
      kill(getpid(), SIGSTOP);  // continued by rank 0 when it has its error
      return "";
    }
    const double start = now_seconds();
    try {
      std::vector<float> data(100000, 1);
      group.all_reduce(data.data(), 100000, DType::f32, ReduceOp::sum).wait();
      ADD_FAILURE() << "no error";
    } catch (const PeerError& error) {
      EXPECT_LT(now_seconds() - start, 1.5 + slack_seconds());
      // Who waited longest ends the others.
      EXPECT_TRUE(error.failure() == Failure::timed_out || error.failure() == Failure::aborted)
          << error.what();
      if (self.rank() == 0) kill(self.pid_of(1), SIGCONT);
      return error.what();
    }
    return "";
  });
  expect_all_ok(ends);
  EXPECT_THAT(ends[0].text, HasSubstr("silent: 1")) << ends[0].text;
}

TEST(ShmFaults, a_stopped_rank_that_goes_on_in_time_is_not_dead) {
  expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Group group(*transport, 0, all_ranks(2), with_timeout(10));
    group.barrier().wait();
    if (self.rank() == 0) {
      kill(self.pid_of(1), SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(self.pid_of(1), SIGCONT);
    }
    std::vector<float> data(1000, 1);
    for (int i = 0; i < 100; ++i) group.all_reduce(data.data(), 1000, DType::f32, ReduceOp::max).wait();
    EXPECT_EQ(data[999], 1);
    return "";
  }));
}

TEST(ShmFaults, leaving_is_named) {
  const auto ends = test::run_ranks(3, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Request request;
    std::byte byte{};
    if (self.rank() == 2) return "";
    transport->receive(2, {1, 0}, {&byte, 1}, nullptr, request);
    while (!request.done) transport->idle(Clock::now() + std::chrono::seconds(20));
    return "";
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(ends[r].text, HasSubstr("rank 2 (pid "));
    EXPECT_THAT(ends[r].text, HasSubstr("left while"));
    EXPECT_LT(ends[r].seconds, 1.5 + slack_seconds());
  }
}

// What a rank sent before it left arrives, also what is large and what nobody waited for.
TEST(ShmFaults, what_was_sent_before_leaving_arrives) {
  expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Request request;
    std::vector<std::byte> data(200000, std::byte{7});
    if (self.rank() == 0) {
      transport->send(1, {1, 0}, data, request);
    } else {
      data.assign(data.size(), std::byte{0});
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      transport->receive(0, {1, 0}, data, nullptr, request);
    }
    while (!request.done) {
      if (!transport->progress()) transport->idle(Clock::now() + std::chrono::seconds(20));
    }
    EXPECT_EQ(data.back(), std::byte{7});
    return "";
  }));
}

// Both send much before either receives: kept within the limit, from either kind of memory.
TEST(ShmMessages, sends_end_before_receives_are_posted) {
  for (const bool shared : {false, true}) {
    expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
      const auto transport = make_shm_transport(self.rendezvous());
      constexpr size_t kBytes = 5 << 20;
      const auto memory = transport->allocate(kBytes);
      std::vector<std::byte> ordinary(kBytes);
      const std::span<std::byte> data = shared ? memory->bytes() : std::span<std::byte>(ordinary);
      std::fill(data.begin(), data.end(), std::byte(self.rank() + 1));
      const auto wait = [&](Request& request) {
        while (!request.done) {
          if (!transport->progress()) transport->idle(Clock::now() + std::chrono::seconds(20));
        }
      };
      const int peer = 1 - self.rank();
      std::array<Request, 3> sends;
      for (size_t i = 0; i < sends.size(); ++i) transport->send(peer, {i, 0}, data, sends[i]);
      for (Request& request : sends) wait(request);
      for (size_t i = sends.size(); i-- > 0;) {
        std::vector<std::byte> in(kBytes);
        Request request;
        transport->receive(peer, {i, 0}, in, nullptr, request);
        wait(request);
        EXPECT_EQ(in, std::vector<std::byte>(kBytes, std::byte(peer + 1)));
      }
      return "";
    }));
  }
}

// A rank in a native path and one in Steps wait for different things and never meet.
TEST(ShmFaults, native_against_steps_is_a_mismatch) {
  const auto ends = test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Group group(*transport, 0, all_ranks(2), with_timeout(20));
    std::vector<float> data(1000, 1);
    const Algorithm algorithm = self.rank() == 0 ? Algorithm::native : Algorithm::ring;
    group.all_reduce(data.data(), 1000, DType::f32, ReduceOp::sum, {algorithm}).wait();
    return "";
  });
  for (const auto& end : ends) {
    EXPECT_THAT(end.text, HasSubstr("all_reduce of 1,000 f32, sum, by native"));
    EXPECT_THAT(end.text, HasSubstr("all_reduce of 1,000 f32, sum, by ring"));
    EXPECT_LT(end.seconds, 2 + slack_seconds());
  }
}

// A rank that waits long uses no processor.
TEST(ShmWaiting, sleeps_when_there_is_nothing_to_do) {
  expect_all_ok(test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    Group group(*transport, 0, all_ranks(2), with_timeout(20));
    group.barrier().wait();
    if (self.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      group.barrier().wait();
      return "";
    }
    const auto used = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double before = used();
    group.barrier().wait();
    EXPECT_LT(used() - before, 0.05);
    return "";
  }));
}

// Pids that mean other processes here than there, as in two containers.
class WrongPids : public Rendezvous {
 public:
  explicit WrongPids(Rendezvous& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int ranks() const override { return real_.ranks(); }
  std::vector<std::string> exchange(std::string_view what, std::string mine) override {
    std::vector<std::string> all = real_.exchange(what, std::move(mine));
    const int32_t own = getpid();
    if (what == "shm segments") std::memcpy(all[1 - rank()].data(), &own, sizeof own);
    return all;
  }

 private:
  Rendezvous& real_;
};

TEST(ShmFaults, ranks_that_share_no_memory_are_told_to_use_tcp) {
  const auto ends = test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    WrongPids rendezvous(self.rendezvous());
    make_shm_transport(rendezvous);
    return "";
  });
  for (const auto& end : ends) {
    EXPECT_EQ(end.exit_code, 1);
    EXPECT_THAT(end.text, HasSubstr("--transport tcp"));
  }
}

TEST(ShmFaults, nothing_is_left_in_dev_shm) {
  const auto entries = [] {  // other jobs of this machine have theirs
    const std::filesystem::directory_iterator files("/dev/shm");
    return std::count_if(begin(files), end(files), [](const auto& file) {
      return file.path().filename().string().find("trireme") != std::string::npos;
    });
  };
  const auto before = entries();
  const auto ends = test::run_ranks(2, [&](test::ForkedRank& self) -> std::string {
    const auto transport = make_shm_transport(self.rendezvous());
    const auto memory = transport->allocate(1 << 20);
    if (entries() != before) return "a file in /dev/shm";
    kill(getpid(), SIGKILL);
    return "";
  });
  for (const auto& end : ends) EXPECT_EQ(end.signal, SIGKILL) << end.text;
  EXPECT_EQ(entries(), before);
}

}  // namespace
}  // namespace trireme::comm
