// The same bits on every rank, in every run, on every transport: sums of random floats, whose rounding
// depends on the order of additions, against recorded hashes. A hash changes only when an algorithm changes
// its order; then golden/bits.txt is written anew by TRIREME_RECORD_BITS=1 (see README.md) and the change is
// said.
#include <xxhash.h>

#include <cstring>
#include <fstream>

#include "tests/multirank/conformance.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/group.h"

namespace trireme::comm {
namespace {

constexpr int64_t kCount = 5003;

// Numbers of many magnitudes, from integers alone, so that every machine makes the same.
std::vector<std::byte> random_numbers(DType dtype, int64_t count, int rank) {
  std::vector<std::byte> data(static_cast<size_t>(count) * size_of(dtype));
  uint64_t state = 88172645463325252u + static_cast<uint64_t>(rank) * 7919;
  for (int64_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const auto mantissa = static_cast<float>(static_cast<int32_t>(state >> 40) - (1 << 23));
    const float value = mantissa / static_cast<float>(1 << (state % 24));
    std::byte* const at = data.data() + static_cast<size_t>(i) * size_of(dtype);
    if (dtype == DType::f32) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const Bf16 rounded(value);
      std::memcpy(at, &rounded, sizeof rounded);
    }
  }
  return data;
}

std::string key_of(Algorithm algorithm, DType dtype, int ranks) {
  return fmt::format("{} {} {}", name(algorithm), name(dtype), ranks);
}

const std::string& golden_path() {
  static const std::string path = TRIREME_GOLDEN_DIR "/bits.txt";
  return path;
}

std::string golden(const std::string& key) {
  std::ifstream file(golden_path());
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + " ")) return line.substr(key.size() + 1);
  }
  return "";
}

void same_bits(Transport& transport, DType dtype) {
  const int ranks = transport.ranks();
  std::vector<int> hosts(ranks);
  for (int rank = 0; rank < ranks; ++rank) hosts[rank] = rank * 2 / ranks;
  GroupOptions options;
  options.hosts = hosts;
  Group group(transport, 0, all_ranks(ranks), options);
  for (const Algorithm algorithm : algorithms_of(Collective::all_reduce)) {
    for (const size_t segment_bytes : {size_t{0}, size_t{512}}) {
      std::vector<std::byte> data = random_numbers(dtype, kCount, transport.rank());
      group.all_reduce(data.data(), kCount, dtype, ReduceOp::sum, {algorithm, segment_bytes}).wait();
      const std::string found = fmt::format("{:016x}", XXH64(data.data(), data.size(), 0));
      const std::string key = key_of(algorithm, dtype, ranks);
      if (std::getenv("TRIREME_RECORD_BITS") != nullptr) {
        if (transport.rank() == 0 && segment_bytes == 0) {
          std::ofstream(golden_path(), std::ios::app) << key << ' ' << found << '\n';
        }
        continue;
      }
      const std::string wanted = golden(key);
      expect(found == wanted, "{}: bits {}, recorded {}", key, found, wanted);
    }
  }
}

// Whatever is chosen, a transport's own way included: all ranks end with the same bits, every time.
void same_bits_of_automatic(Transport& transport) {
  const int ranks = transport.ranks();
  Group group(transport, 0, all_ranks(ranks));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t count : {1, 2, 30, 500, 3001, 40003, 700001}) {
      int64_t first = 0;
      for (int run = 0; run < 3; ++run) {
        std::vector<std::byte> data = random_numbers(dtype, count, transport.rank());
        group.all_reduce(data.data(), count, dtype, ReduceOp::sum).wait();
        const auto hash = static_cast<int64_t>(XXH64(data.data(), data.size(), 0));
        std::vector<int64_t> hashes(ranks, hash);
        group.all_gather(hashes.data(), ranks, DType::i64).wait();
        if (run == 0) first = hash;
        for (int rank = 0; rank < ranks; ++rank) {
          expect(hashes[rank] == first, "sum of {} {}: run {} of rank {} gave other bits", count, name(dtype),
                 run, rank);
        }
      }
    }
  }
}

}  // namespace

void add_bits_cases(std::vector<Case>& cases, std::span<const int> rank_counts) {
  for (const int ranks : rank_counts) {
    if (ranks == 1 || ranks > 8) continue;
    cases.push_back({fmt::format("bits/automatic/{}", ranks), ranks, same_bits_of_automatic});
    for (const DType dtype : {DType::f32, DType::bf16}) {
      cases.push_back({fmt::format("bits/{}/{}", name(dtype), ranks), ranks,
                       [=](Transport& transport) { same_bits(transport, dtype); }});
    }
  }
}

}  // namespace trireme::comm
