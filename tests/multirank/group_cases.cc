// Several groups and several operations at once: rows and columns of a mesh, waited for in any order, with
// messages between them.
#include <algorithm>

#include "tests/multirank/conformance.h"
#include "trireme/comm/group.h"

namespace trireme::comm {
namespace {

struct Flying {
  std::vector<int64_t> data;
  int64_t expected;
  Handle handle;
};

Flying fly(Group& group, const Transport& transport, std::span<const int> members, int64_t count, int number,
           Algorithm algorithm) {
  const auto value = [&](int rank) { return (rank + 1) * 1000 + number; };
  Flying flying{std::vector<int64_t>(static_cast<size_t>(count), value(transport.rank())), 0, {}};
  for (const int member : members) flying.expected += value(member);
  flying.handle =
      group.all_reduce(flying.data.data(), count, DType::i64, ReduceOp::sum, {.algorithm = algorithm});
  return flying;
}

void land(Flying& flying) {
  flying.handle.wait();
  for (const int64_t value : flying.data) {
    expect(value == flying.expected, "{} instead of {}", value, flying.expected);
  }
}

// ranks = rows * columns; all rows, all columns and everyone at once, over and over.
void mesh(Transport& transport, int columns) {
  const int rows = transport.ranks() / columns;
  const int row = transport.rank() / columns, column = transport.rank() % columns;
  std::vector<int> in_row, in_column;
  for (int i = 0; i < columns; ++i) in_row.push_back(row * columns + i);
  for (int i = rows - 1; i >= 0; --i) in_column.push_back(i * columns + column);  // descending, for once
  const std::vector<int> all = all_ranks(transport.ranks());
  Group world(transport, 0, all);
  Group by_row(transport, 1 + row, in_row);
  Group by_column(transport, 100 + column, in_column);
  expect(by_column.rank() == rows - 1 - row, "rank {} in the column", by_column.rank());
  const Algorithm algorithms[] = {Algorithm::ring, Algorithm::butterfly, Algorithm::tree,
                                  Algorithm::automatic, Algorithm::naive};
  for (int round = 0; round < 6; ++round) {
    std::vector<Flying> flying;
    const int64_t large = 40000 + round, small = 3 + round;
    const Algorithm algorithm = algorithms[round % std::size(algorithms)];
    flying.push_back(fly(by_row, transport, in_row, large, round, algorithm));
    flying.push_back(fly(by_column, transport, in_column, large, round + 10, algorithm));
    flying.push_back(fly(world, transport, all, large, round + 20, Algorithm::ring));
    flying.push_back(fly(by_row, transport, in_row, small, round + 30, algorithm));
    flying.push_back(fly(by_column, transport, in_column, small, round + 40, Algorithm::butterfly));
    flying.push_back(fly(by_row, transport, in_row, large, round + 50, Algorithm::automatic));
    // Each rank waits in an order of its own.
    std::rotate(flying.begin(), flying.begin() + (transport.rank() + round) % 6, flying.end());
    for (Flying& each : flying) land(each);
  }
}

// Many operations of one group under way, ended by done() alone.
void many_in_flight(Transport& transport) {
  const std::vector<int> all = all_ranks(transport.ranks());
  Group group(transport, 0, all);
  std::vector<Flying> flying;
  for (int i = 0; i < 50; ++i) flying.push_back(fly(group, transport, all, 500 * i, i, Algorithm::automatic));
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  while (!std::ranges::all_of(flying, [](Flying& each) { return each.handle.done(); })) {
    expect(Clock::now() < deadline, "not done after 60 s");
    transport.idle(Clock::now() + std::chrono::milliseconds(5));
  }
  for (Flying& each : flying) land(each);
}

// A handle that nobody waits for is waited for when it goes.
void forgotten_handles(Transport& transport) {
  const std::vector<int> all = all_ranks(transport.ranks());
  Group group(transport, 0, all);
  std::vector<int64_t> data(100000, 1);
  { const Handle handle = group.all_reduce(data.data(), 100000, DType::i64, ReduceOp::sum); }
  expect(data[99999] == transport.ranks(), "{} instead of {}", data[99999], transport.ranks());
}

// Messages between pairs keep their order per pair, beside collectives of the same group.
void messages(Transport& transport) {
  const std::vector<int> all = all_ranks(transport.ranks());
  Group group(transport, 3, all);
  const int ranks = group.size(), rank = group.rank();
  for (int round = 0; round < 4; ++round) {
    constexpr int kEach = 5;
    std::vector<std::vector<float>> out, in;
    std::vector<Handle> handles;
    out.reserve(ranks * kEach);
    in.reserve(ranks * kEach);
    for (int peer = 0; peer < ranks; ++peer) {
      for (int i = 0; i < kEach; ++i) {
        const size_t count = static_cast<size_t>(i) * (round == 3 ? 40000 : 100);
        out.emplace_back(count, static_cast<float>(rank * 100 + peer * 10 + i));
        in.emplace_back(count, -1.0f);
        if (peer == rank) continue;
        const int tag = round == 0 ? 0 : Group::kMostTag - i;
        handles.push_back(group.send(out.back().data(), static_cast<int64_t>(count), DType::f32, peer, tag));
        handles.push_back(
            group.receive(in.back().data(), static_cast<int64_t>(count), DType::f32, peer, tag));
      }
    }
    Flying flying = fly(group, transport, all, 30000, round, Algorithm::ring);
    for (Handle& handle : handles) handle.wait();
    land(flying);
    for (int peer = 0; peer < ranks; ++peer) {
      for (int i = 0; i < kEach; ++i) {
        if (peer == rank) continue;
        for (const float value : in[peer * kEach + i]) {
          expect(value == static_cast<float>(peer * 100 + rank * 10 + i), "{} in message {} from {}", value,
                 i, peer);
        }
      }
    }
  }
}

}  // namespace

void add_group_cases(std::vector<Case>& cases, std::span<const int> rank_counts) {
  for (const int ranks : rank_counts) {
    const auto add = [&](const char* name, Body body) {
      cases.push_back({fmt::format("groups/{}/{}", name, ranks), ranks, std::move(body)});
    };
    for (const int columns : {2, 3, 4}) {
      if (ranks % columns != 0 || ranks == columns || ranks > 12) continue;
      cases.push_back({fmt::format("groups/mesh_{}x{}/{}", ranks / columns, columns, ranks), ranks,
                       [=](Transport& transport) { mesh(transport, columns); }});
    }
    if (ranks > 5) continue;
    add("many_in_flight", many_in_flight);
    add("forgotten_handles", forgotten_handles);
    add("messages", messages);
  }
}

}  // namespace trireme::comm
