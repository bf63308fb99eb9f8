// What must be refused, and what ranks at odds, gone or late must lead to: the same named error on all ranks.
#include <thread>

#include "tests/multirank/conformance.h"
#include "trireme/comm/group.h"

namespace trireme::comm {
namespace {

GroupOptions patient(double seconds = 30) {
  GroupOptions options;
  options.timeout_seconds = seconds;
  return options;
}

Error expect_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  throw_error("expected an Error, but nothing was thrown");
}

// Rank 1 makes `odd`, the others `usual`. All must be told of both.
void expect_mismatch(Transport& transport, const std::function<void(Group&)>& usual,
                     const std::function<void(Group&)>& odd, std::string_view usual_text,
                     std::string_view odd_text) {
  Group group(transport, 0, all_ranks(transport.ranks()), patient());
  const PeerError error = expect_peer_error([&] {
    (transport.rank() == 1 ? odd : usual)(group);
    // A rank whose part was done before the others came learns of it from its next call.
    for (int i = 0; i < 2; ++i) group.barrier().wait();
  });
  expect(error.failure() == Failure::mismatch, "failure {} is not mismatch: {}", int(error.failure()),
         error.what());
  expect_contains(error.what(), usual_text);
  expect_contains(error.what(), odd_text);
  // From then on the group refuses with the same words.
  const PeerError again = expect_peer_error([&] { group.barrier().wait(); });
  expect(std::string_view(again.what()) == error.what(), "another error the second time: {}", again.what());
}

std::function<void(Group&)> all_reduce_of(int64_t count, DType dtype, ReduceOp op = ReduceOp::sum) {
  return [=](Group& group) {
    std::vector<double> data(static_cast<size_t>(count) + 1, 1);
    group.all_reduce(data.data(), count, dtype, op).wait();
  };
}

void different_collectives(Transport& transport) {
  expect_mismatch(
      transport, all_reduce_of(100, DType::f32),
      [](Group& group) {
        std::vector<float> data(100);
        group.broadcast(data.data(), 100, DType::f32, 0).wait();
      },
      "all_reduce of 100 f32, sum", "broadcast of 100 f32, root 0");
}
void different_sizes(Transport& transport) {
  expect_mismatch(transport, all_reduce_of(100, DType::f32), all_reduce_of(101, DType::f32), "of 100 f32",
                  "of 101 f32");
}
void nothing_against_something(Transport& transport) {
  expect_mismatch(transport, all_reduce_of(100, DType::f32), all_reduce_of(0, DType::f32), "of 100 f32",
                  "of 0 f32");
}
void different_tags(Transport& transport) {
  const auto send = [](Group& group) {
    std::vector<std::byte> data(20);
    if (group.rank() == 0) group.send(data.data(), 20, DType::u8, /*to=*/1, /*tag=*/3).wait();
  };
  const auto receive = [](Group& group) {
    std::vector<std::byte> data(20);
    group.receive(data.data(), 20, DType::u8, /*from=*/0, /*tag=*/4).wait();
  };
  expect_mismatch(transport, send, receive, "rank 0: message of 20 u8, tag 3",
                  "rank 1: message of 20 u8, tag 4");
}
void different_formats(Transport& transport) {
  expect_mismatch(transport, all_reduce_of(100, DType::f32), all_reduce_of(100, DType::i32), "100 f32",
                  "100 i32");
}
void different_ops(Transport& transport) {
  expect_mismatch(transport, all_reduce_of(100, DType::f32), all_reduce_of(100, DType::f32, ReduceOp::max),
                  "f32, sum", "f32, max");
}
void different_large(Transport& transport) {
  expect_mismatch(transport, all_reduce_of(1 << 20, DType::f32), all_reduce_of((1 << 20) - 1, DType::f32),
                  "of 1,048,576 f32", "of 1,048,575 f32");
}

// The counts of an all-to-all are each rank's own affair until the messages meet.
void different_counts(Transport& transport) {
  Group group(transport, 0, all_ranks(transport.ranks()), patient());
  std::vector<int64_t> sends(group.size(), 1), receives(group.size(), 1);
  if (group.rank() == 1) receives[0] = 3;
  std::vector<float> data(64), output(64);
  const PeerError error = expect_peer_error([&] {
    group.all_to_all(data.data(), sends, output.data(), receives, DType::f32).wait();
    for (int i = 0; i < 2; ++i) group.barrier().wait();
  });
  expect_contains(error.what(), "rank 0 sent 4 bytes where rank 1 expected 12");
}

// A rank ends the job: everybody who waits, and who calls later, is told why.
void abort_ends_all(Transport& transport) {
  Group group(transport, 0, all_ranks(transport.ranks()), patient());
  if (transport.rank() == 1) {
    transport.abort("the disk is full");
    return;
  }
  const PeerError error = expect_peer_error([&] { group.barrier().wait(); });
  expect(error.failure() == Failure::aborted, "failure {} is not aborted", int(error.failure()));
  expect(error.rank() == 1, "rank {} is named, not 1", error.rank());
  expect_contains(error.what(), "the disk is full");
  expect_contains(error.what(), "barrier (group world, number 0");
  // A group can still be made: an error names an operation, and this is none.
  Group later(transport, 1, all_ranks(transport.ranks()), patient());
  expect_contains(expect_peer_error([&] { later.barrier().wait(); }).what(), "the disk is full");
}

// A rank goes away while others wait for it.
void leaving_is_noticed(Transport& transport) {
  Group group(transport, 0, all_ranks(transport.ranks()), patient());
  std::vector<float> data(5000, 1);
  const auto reduce = [&] { group.all_reduce(data.data(), 5000, DType::f32, ReduceOp::sum).wait(); };
  if (transport.rank() == 1) return reduce();
  const auto start = Clock::now();
  // The second one fails at the latest; the first one too where another rank was there before this one.
  const PeerError error = expect_peer_error([&] {
    reduce();
    reduce();
  });
  const std::chrono::duration<double> taken = Clock::now() - start;
  expect(taken.count() < 2, "noticed after {} s", taken.count());
  expect(error.rank() == 1, "rank {} is named, not 1: {}", error.rank(), error.what());
  expect_contains(error.what(), "all_reduce of 5,000 f32, sum");
}

// One does not come in time: the others say who, and end; so does the late one.
void timeout_names_the_late(Transport& transport) {
  const int late = transport.ranks() - 1;
  Group group(transport, 0, all_ranks(transport.ranks()), patient(0.4));
  std::vector<float> data(70000, 1);
  const auto reduce = [&] { group.all_reduce(data.data(), 70000, DType::f32, ReduceOp::sum).wait(); };
  reduce();
  if (transport.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  const auto start = Clock::now();
  const PeerError error = expect_peer_error(reduce);
  const std::chrono::duration<double> taken = Clock::now() - start;
  expect(taken.count() < 1.4, "it took {} s", taken.count());
  expect_contains(error.what(), "all_reduce of 70,000 f32, sum");
  expect_contains(error.what(), "group world, number 1, 273.4 KiB");
  if (transport.rank() == late) return;
  // Where ranks can only be asked, one that is busy elsewhere does not answer.
  const std::string text = error.what();
  if (text.find(fmt::format("silent: {}", late)) == std::string::npos) {
    expect_contains(text, fmt::format("not: {}", late));
  }
  expect_contains(error.what(), "arrived: 0");
}

// Slow, but within its time: not an error.
void slow_is_not_dead(Transport& transport) {
  Group group(transport, 0, all_ranks(transport.ranks()), patient(1.5));
  for (int i = 0; i < 3; ++i) {
    if (transport.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<int32_t> data(3000, 1);
    group.all_reduce(data.data(), 3000, DType::i32, ReduceOp::sum).wait();
    expect(data[2999] == transport.ranks(), "{} instead of {}", data[2999], transport.ranks());
  }
}

// Nothing of this is sent, and the group works afterwards.
void bad_arguments(Transport& transport) {
  const int ranks = transport.ranks();
  Group group(transport, 0, all_ranks(transport.ranks()), patient());
  std::vector<float> data(10, 1);
  const auto refused = [&](const std::function<void()>& action, std::string_view because) {
    expect_contains(expect_error(action).what(), because);
  };
  refused([&] { group.broadcast(data.data(), 10, DType::f32, ranks); }, "root");
  refused([&] { group.broadcast(data.data(), 10, DType::f32, -1); }, "root -1");
  refused([&] { group.all_reduce(data.data(), -1, DType::f32, ReduceOp::sum); }, "-1 elements");
  refused([&] { group.all_reduce(data.data(), Call::kMaxCount + 1, DType::f32, ReduceOp::sum); }, "elements");
  refused([&] { group.all_reduce(nullptr, 10, DType::f32, ReduceOp::sum); }, "null");
  refused([&] { group.all_reduce(data.data(), 10, DType::i32, ReduceOp::average); }, "average of i32");
  refused([&] { group.broadcast(data.data(), 10, DType::f32, 0, {Algorithm::butterfly}); }, "there are");
  refused([&] { group.send(data.data(), 10, DType::f32, group.rank()); }, "another rank");
  const std::vector<int64_t> counts(ranks + 1);
  refused([&] { group.all_to_all(data.data(), counts, data.data(), counts, DType::f32); }, "one for each");
  refused([&] { Group(transport, 1, {transport.rank(), ranks}); }, "not a rank");
  refused([&] { Group(transport, 1, {transport.rank(), transport.rank()}); }, "twice");
  refused([&] { Group(transport, 1, {}); }, "no members");
  refused([&] { Group(transport, 1, {(transport.rank() + 1) % ranks}); }, "no member");
  group.all_reduce(data.data(), 10, DType::f32, ReduceOp::sum).wait();
  expect(data[9] == static_cast<float>(ranks), "{} instead of {}", data[9], ranks);
}

}  // namespace

void add_failure_cases(std::vector<Case>& cases, std::span<const int> rank_counts) {
  for (const int ranks : rank_counts) {
    if (ranks != 2 && ranks != 3 && ranks != 4) continue;
    const auto add = [&](const char* name, Body body) {
      cases.push_back({fmt::format("failures/{}/{}", name, ranks), ranks, std::move(body)});
    };
    add("different_collectives", different_collectives);
    add("different_sizes", different_sizes);
    add("nothing_against_something", nothing_against_something);
    add("different_formats", different_formats);
    add("different_tags", different_tags);
    add("different_ops", different_ops);
    add("different_large", different_large);
    add("different_counts", different_counts);
    add("abort_ends_all", abort_ends_all);
    add("leaving_is_noticed", leaving_is_noticed);
    add("bad_arguments", bad_arguments);
    if (ranks == 3) continue;
    add("timeout_names_the_late", timeout_names_the_late);
    add("slow_is_not_dead", slow_is_not_dead);
  }
}

}  // namespace trireme::comm
