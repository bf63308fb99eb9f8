// Every collective by every algorithm, against what it should give, with the bytes that its Steps promise.
// Sizes, formats and ops take turns over algorithms and numbers of ranks, so that each meets each without a
// full cross.

#include "tests/multirank/conformance.h"
#include "tests/multirank/numbers.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/check.h"
#include "trireme/comm/collective/cost.h"
#include "trireme/comm/group.h"

namespace trireme::comm {
namespace {

// Two or three hosts, so that hierarchical has something to do.
std::vector<int> some_hosts(int ranks) {
  std::vector<int> hosts(ranks);
  for (int rank = 0; rank < ranks; ++rank) hosts[rank] = ranks < 4 ? 0 : rank * (ranks < 9 ? 2 : 3) / ranks;
  return hosts;
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}
bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

// Whether element i is in the part of a rank, where parts are whole units.
bool is_of(const Call& call, int64_t unit, int ranks, int rank, int64_t i) {
  const Part own = part_of(call.count / unit, ranks, rank);
  return i >= own.begin * unit && i < own.end() * unit;
}
// Whether rank gives element i / ends with it.
bool gives(const Call& call, int64_t unit, int ranks, int rank, int64_t i) {
  const bool in_own = is_of(call, unit, ranks, rank, i);
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return in_own;
    case Collective::broadcast:
    case Collective::scatter:
      return rank == call.root;
    default:
      return true;
  }
}
bool ends_with(const Call& call, int64_t unit, int ranks, int rank, int64_t i) {
  const bool in_own = is_of(call, unit, ranks, rank, i);
  switch (call.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
      return in_own;
    case Collective::reduce:
    case Collective::gather:
      return rank == call.root;
    default:
      return true;
  }
}

double expected(const Call& call, int64_t unit, int ranks, int64_t i) {
  if (reduces(call.collective)) {
    const double sum = reduced(call.op, ranks, i);
    if (call.op != ReduceOp::average) return sum;
    // What scale() does, in its precision.
    return call.dtype == DType::f64
               ? sum * (1.0 / ranks)
               : static_cast<double>(static_cast<float>(sum) * (1.0f / static_cast<float>(ranks)));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (gives(call, unit, ranks, rank, i)) return given(ReduceOp::sum, rank, i);
  }
  return 0;
}

Handle start(Group& group, const Call& call, void* data, CollectiveOptions options) {
  switch (call.collective) {
    case Collective::all_reduce:
      return group.all_reduce(data, call.count, call.dtype, call.op, options);
    case Collective::reduce_scatter:
      return group.reduce_scatter(data, call.count, call.dtype, call.op, options);
    case Collective::all_gather:
      return group.all_gather(data, call.count, call.dtype, options);
    case Collective::broadcast:
      return group.broadcast(data, call.count, call.dtype, call.root, options);
    case Collective::reduce:
      return group.reduce(data, call.count, call.dtype, call.op, call.root, options);
    case Collective::gather:
      return group.gather(data, call.count, call.dtype, call.root, options);
    case Collective::scatter:
      return group.scatter(data, call.count, call.dtype, call.root, options);
    default:
      return group.barrier();
  }
}

// What the Steps say that this rank sends.
uint64_t promised_bytes(const Call& call, int64_t unit, const Steps& steps, int rank) {
  uint64_t bytes = 0;
  for (const Step& step : steps.of(rank)) {
    if (step.kind != Step::Kind::send) continue;
    for (int chunk = step.chunk; chunk < step.chunk + step.count; ++chunk) {
      const Part part = part_of(call.count / unit, steps.chunks(), steps.sized_as(chunk));
      bytes += static_cast<uint64_t>(part.size * unit) * size_of(call.dtype);
    }
  }
  return bytes;
}

void run_and_check(Group& group, const Call& call, size_t segment_bytes, std::span<const int> hosts,
                   int64_t unit = 1) {
  const int ranks = group.size();
  const std::string what =
      fmt::format("{}, {} ranks, segments of {}, units of {}", to_text(call), ranks, segment_bytes, unit);
  Numbers numbers(call.dtype, call.count);
  for (int64_t i = 0; i < call.count; ++i) {
    const double value =
        reduces(call.collective) ? given(call.op, group.rank(), i) : given(ReduceOp::sum, group.rank(), i);
    numbers.set(i, gives(call, unit, ranks, group.rank(), i) ? value : 99);
  }
  const Counters before = group.transport().counters();
  Handle handle = start(group, call, numbers.data(), {call.algorithm, segment_bytes, unit});
  handle.wait();
  for (int64_t i = 0; i < call.count; ++i) {
    if (ends_with(call, unit, ranks, group.rank(), i))
      numbers.expect(i, expected(call, unit, ranks, i), what);
  }
  numbers.expect_guards(what);
  const OperationReport report = handle.report();
  if (call.algorithm != Algorithm::automatic) {
    expect(report.call == call, "{}: reported as {}", what, to_text(report.call));
  }
  if (report.call.algorithm == Algorithm::native) return;
  const Steps steps = make_steps(call.collective, report.call.algorithm, ranks, call.root, hosts);
  const uint64_t sent = group.transport().counters().bytes_sent - before.bytes_sent;
  const uint64_t promised = promised_bytes(call, unit, steps, group.rank());
  expect(sent == promised, "{}: {} bytes sent, {} promised by the steps", what, sent, promised);
}

constexpr size_t kSegmentBytes = 1024;

// Nothing, one, a prime, less than ranks, not a multiple, and several segments in every chunk.
std::vector<int64_t> counts_for(int ranks) {
  return {0, 1, 13, ranks > 1 ? ranks - 1 : 2, 37 * ranks + 1, 1500 * (ranks < 8 ? ranks : 4) + 7};
}

// Pairs of format and op in turn; averages of integers, which are refused, become sums.
struct Turns {
  int next = 0;
  void take(Call& call) {
    call.dtype = kDTypes[next % std::size(kDTypes)];
    call.op = reduces(call.collective) ? kOps[next % std::size(kOps)] : ReduceOp::sum;
    if (call.op == ReduceOp::average && !is_float(call.dtype)) call.op = ReduceOp::sum;
    ++next;
  }
};

void sweep(Transport& transport, Collective collective, Algorithm algorithm) {
  const int ranks = transport.ranks();
  GroupOptions options;
  options.hosts = some_hosts(ranks);
  options.timeout_seconds = 60;
  Group group(transport, 5, all_ranks(ranks), options);
  Turns turns{.next = ranks * 3 + static_cast<int>(algorithm)};
  for (const int64_t count : counts_for(ranks)) {
    for (const int root : {0, ranks / 2, ranks - 1}) {
      if (root != 0 && !has_root(collective)) continue;
      Call call{.collective = collective, .algorithm = algorithm, .root = root, .count = count};
      turns.take(call);
      run_and_check(group, call, kSegmentBytes, options.hosts);
    }
  }
}

// Parts of whole units, which are not those of elements: of fewer units than ranks, of one more, and of
// several segments.
void in_units(Transport& transport) {
  const int ranks = transport.ranks();
  GroupOptions options;
  options.hosts = some_hosts(ranks);
  Group group(transport, 11, all_ranks(ranks), options);
  Turns turns{.next = ranks};
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
    std::vector<Algorithm> algorithms = algorithms_of(collective);
    algorithms.push_back(Algorithm::automatic);
    for (const Algorithm algorithm : algorithms) {
      for (const int64_t unit : {5, 700}) {
        for (const int64_t units : {0, 1, 2 * ranks, 3 * ranks + 2}) {
          Call call{.collective = collective, .algorithm = algorithm, .count = units * unit};
          turns.take(call);
          run_and_check(group, call, kSegmentBytes, options.hosts, unit);
        }
      }
    }
  }
}

void every_format_and_op(Transport& transport, Algorithm algorithm) {
  Group group(transport, 6, all_ranks(transport.ranks()));
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::average && !is_float(dtype)) continue;
      for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter}) {
        run_and_check(group, {collective, algorithm, dtype, op, 0, 1031}, 0, {});
      }
    }
  }
}

// Sizes at which transports change their ways.
void large(Transport& transport) {
  Group group(transport, 9, all_ranks(transport.ranks()));
  for (const int64_t bytes : {30000, 200000, 1100000}) {
    for (const Collective collective :
         {Collective::reduce_scatter, Collective::all_gather, Collective::broadcast}) {
      run_and_check(group, {collective, Algorithm::automatic, DType::f32, ReduceOp::sum, 0, bytes / 4 + 1}, 0,
                    {});
    }
  }
  for (const int64_t bytes : {30000, 200000, 1100000, 9000000}) {
    const Call sum{Collective::all_reduce, Algorithm::automatic, DType::f32, ReduceOp::sum, 0, bytes / 4 + 1};
    run_and_check(group, sum, 0, {});
    const Call average{
        Collective::all_reduce, Algorithm::automatic, DType::bf16, ReduceOp::average, 0, bytes / 2};
    run_and_check(group, average, 0, {});
  }
}

// Buffers in the transport's memory, at any offset, on all ranks or on some: the result is the same.
void transport_memory(Transport& transport) {
  constexpr int64_t kBytes = 3 << 20;
  Group group(transport, 10, all_ranks(transport.ranks()));
  const std::unique_ptr<Memory> memory = transport.allocate(kBytes);
  std::vector<std::byte> ordinary(kBytes);
  for (const bool mixed : {false, true}) {
    for (const int64_t count : {1, 77, 5000, 60000, 700001}) {
      for (const int64_t offset : {0, 4, 4096}) {
        const bool in_memory = !mixed || group.rank() % 2 == 1;
        std::byte* const base = (in_memory ? memory->bytes().data() : ordinary.data()) + offset;
        auto* const data = reinterpret_cast<int32_t*>(base);
        for (int64_t i = 0; i < count; ++i) data[i] = static_cast<int32_t>(i) + group.rank();
        group.all_reduce(data, count, DType::i32, ReduceOp::sum).wait();
        const int ranks = group.size();
        for (int64_t i = 0; i < count; ++i) {
          const auto wanted = static_cast<int32_t>(i * ranks + ranks * (ranks - 1) / 2);
          expect(data[i] == wanted, "{} elements at {}: element {} is {}, expected {}", count, offset, i,
                 data[i], wanted);
        }
      }
    }
  }
}

void all_to_all(Transport& transport) {
  const int ranks = transport.ranks(), rank = transport.rank();
  Group group(transport, 7, all_ranks(ranks));
  // What a gives to b; nothing for some, more than a segment for others.
  for (const int64_t scale : {0, 1, 20000}) {
    const auto size = [&](int a, int b) { return (a * 5 + b * 3) % 4 * scale + (a + b) % 2; };
    std::vector<int64_t> send_counts, receive_counts;
    std::vector<int32_t> input, output;
    for (int peer = 0; peer < ranks; ++peer) {
      send_counts.push_back(size(rank, peer));
      receive_counts.push_back(size(peer, rank));
      for (int64_t i = 0; i < size(rank, peer); ++i)
        input.push_back(rank * 1000 + peer + static_cast<int>(i) * 7);
      output.resize(output.size() + size(peer, rank));
    }
    const uint64_t before = transport.counters().bytes_sent;
    group.all_to_all(input.data(), send_counts, output.data(), receive_counts, DType::i32).wait();
    size_t at = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      for (int64_t i = 0; i < size(peer, rank); ++i, ++at) {
        const int wanted = peer * 1000 + rank + static_cast<int>(i) * 7;
        expect(output[at] == wanted, "element {} from {} is {}, expected {}", i, peer, output[at], wanted);
      }
    }
    const uint64_t sent = transport.counters().bytes_sent - before;
    const uint64_t others = (input.size() - static_cast<size_t>(size(rank, rank))) * sizeof(int32_t);
    expect(sent == others, "{} bytes sent, expected {}", sent, others);
  }
}

// The same numbers by each algorithm, each with the bytes that its Steps promise.
void even_all_to_all(Transport& transport, Algorithm algorithm) {
  const int ranks = transport.ranks(), rank = transport.rank();
  GroupOptions options;
  options.hosts = some_hosts(ranks);
  Group group(transport, 12, all_ranks(ranks), options);
  const auto given = [](int from, int to, int64_t i) {
    return static_cast<int32_t>(from * 1000 + to + i * 7);
  };
  for (const int64_t count : {0, 1, 13, 700, 20001}) {
    std::vector<int32_t> input(ranks * count), output(ranks * count, -1);
    for (int to = 0; to < ranks; ++to) {
      for (int64_t i = 0; i < count; ++i) input[to * count + i] = given(rank, to, i);
    }
    const std::vector<int32_t> before_call = input;
    const Counters before = transport.counters();
    Handle handle =
        group.all_to_all(input.data(), output.data(), count, DType::i32, {algorithm, kSegmentBytes});
    handle.wait();
    for (int from = 0; from < ranks; ++from) {
      for (int64_t i = 0; i < count; ++i)
        expect(output[from * count + i] == given(from, rank, i),
               "element {} of {} from {} by {} is {}, expected {}", i, count, from, name(algorithm),
               output[from * count + i], given(from, rank, i));
    }
    expect(input == before_call, "all_to_all by {} of {} has changed what it was given", name(algorithm),
           count);
    const Algorithm ran = handle.report().call.algorithm;
    expect(algorithm == Algorithm::automatic || count == 0 || ran == algorithm, "{} ran, not {}", name(ran),
           name(algorithm));
    const Steps steps = make_steps(Collective::all_to_all, ran, ranks, 0, options.hosts);
    const std::vector<size_t> chunks(steps.chunks(), count * sizeof(int32_t));
    const uint64_t promised = bytes_sent(steps, chunks)[rank];
    const uint64_t sent = transport.counters().bytes_sent - before.bytes_sent;
    expect(sent == promised, "{} elements by {}: {} bytes sent, {} promised by the steps", count, name(ran),
           sent, promised);
    if (longest_message_bytes(steps, chunks) > kSegmentBytes) continue;  // several segments
    const uint64_t messages = transport.counters().messages_sent - before.messages_sent;
    const auto promised_messages = std::ranges::count(steps.of(rank), Step::Kind::send, &Step::kind);
    expect(messages == static_cast<uint64_t>(promised_messages),
           "{} elements by {}: {} messages, {} promised", count, name(ran), messages, promised_messages);
  }
}

// Nobody leaves before everybody has come.
void barrier(Transport& transport) {
  const int ranks = transport.ranks();
  Group group(transport, 8, all_ranks(ranks));
  for (int late = 0; late < ranks; ++late) {
    // The late one tells the others, by messages that only it can send first, that it had come.
    std::vector<Handle> handles;
    int32_t token = -1;
    if (group.rank() != late) handles.push_back(group.receive(&token, 1, DType::i32, late));
    if (group.rank() == late) {
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer != late) group.send(&late, 1, DType::i32, peer).wait();
      }
    }
    group.barrier().wait();
    group.barrier().wait();
    for (Handle& handle : handles) handle.wait();
    expect(group.rank() == late || token == late, "token {} from {}", token, late);
  }
}

}  // namespace

void add_collective_cases(std::vector<Case>& cases, std::span<const int> rank_counts) {
  for (const int ranks : rank_counts) {
    for (int i = 0; i < static_cast<int>(Collective::all_to_all); ++i) {
      const auto collective = static_cast<Collective>(i);
      std::vector<Algorithm> algorithms = algorithms_of(collective);
      algorithms.push_back(Algorithm::automatic);
      for (const Algorithm algorithm : algorithms) {
        cases.push_back({fmt::format("collectives/{}_{}/{}", name(collective), name(algorithm), ranks), ranks,
                         [=](Transport& transport) { sweep(transport, collective, algorithm); }});
      }
    }
    cases.push_back({fmt::format("collectives/all_to_all/{}", ranks), ranks, all_to_all});
    std::vector<Algorithm> of_equal_parts = algorithms_of(Collective::all_to_all);
    of_equal_parts.push_back(Algorithm::automatic);
    for (const Algorithm algorithm : of_equal_parts) {
      cases.push_back({fmt::format("collectives/all_to_all_even_{}/{}", name(algorithm), ranks), ranks,
                       [=](Transport& transport) { even_all_to_all(transport, algorithm); }});
    }
    cases.push_back({fmt::format("collectives/in_units/{}", ranks), ranks, in_units});
    cases.push_back({fmt::format("collectives/barrier/{}", ranks), ranks, barrier});
    if (ranks >= 2 && ranks <= 4) {
      cases.push_back({fmt::format("collectives/large/{}", ranks), ranks, large});
      cases.push_back({fmt::format("collectives/transport_memory/{}", ranks), ranks, transport_memory});
    }
    if (ranks != 3 && ranks != 4) continue;
    for (const Algorithm algorithm : {Algorithm::ring, Algorithm::automatic}) {
      cases.push_back({fmt::format("collectives/formats_and_ops_{}/{}", name(algorithm), ranks), ranks,
                       [=](Transport& transport) { every_format_and_op(transport, algorithm); }});
    }
  }
}

}  // namespace trireme::comm
