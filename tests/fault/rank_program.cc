// A job for tests: every rank runs one collective in a loop, says when it is under way, and says how it
// ended: with a hash of the result, or with an error and when. Times are CLOCK_MONOTONIC seconds, so that a
// test can compare them with its own.
//
//   rank_program -n 4 --transport shm --timeout 2 --collective all_reduce --count 1000 --iterations 100
//
// Lines: "ready PID", "result HASH", "error TIME TEXT". `--odd-rank R` makes rank R use the --odd-… values.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/comm/context.h"

namespace {

using namespace trireme;
using namespace trireme::comm;

struct Job {
  std::string collective = "all_reduce";
  std::string algorithm = "automatic";
  std::string dtype = "f32";
  int64_t count = 1000;
  int64_t iterations = 100;
  bool endless =
      false;  // and without looking at the data, so that ranks wait for each other most of the time
  int pause_ms = 0;
  int root = 0;
  int odd_rank = -1;
  std::string odd_collective, odd_dtype;
  int64_t odd_count = -1;
};

// Values that sum without rounding in no order, so that the order of additions shows in the hash.
void fill(std::vector<std::byte>& data, DType dtype, int64_t count, int rank, int64_t iteration) {
  data.assign(static_cast<size_t>(count) * size_of(dtype), std::byte{0});
  for (int64_t i = 0; i < count; ++i) {
    const double value = 1.0 / static_cast<double>(3 + (i * 7 + rank * 13 + iteration) % 101);
    if (dtype == DType::f32) reinterpret_cast<float*>(data.data())[i] = static_cast<float>(value);
    if (dtype == DType::f64) reinterpret_cast<double*>(data.data())[i] = value;
    if (dtype == DType::i32) reinterpret_cast<int32_t*>(data.data())[i] = static_cast<int32_t>(i + rank);
  }
}

uint64_t hash_of(const std::vector<std::byte>& data, uint64_t hash) {
  for (std::byte byte : data) hash = (hash ^ static_cast<uint64_t>(byte)) * 1099511628211u;
  return hash;
}

void run_once(Group& group, const Job& job, Collective collective, DType dtype, int64_t count,
              std::vector<std::byte>& data, std::vector<std::byte>& output) {
  const CollectiveOptions options{.algorithm = parse_algorithm(job.algorithm).value()};
  switch (collective) {
    case Collective::all_reduce:
      return group.all_reduce(data.data(), count, dtype, ReduceOp::sum, options).wait();
    case Collective::reduce_scatter:
      return group.reduce_scatter(data.data(), count, dtype, ReduceOp::sum).wait();
    case Collective::all_gather:
      return group.all_gather(data.data(), count, dtype).wait();
    case Collective::broadcast:
      return group.broadcast(data.data(), count, dtype, job.root).wait();
    case Collective::reduce:
      return group.reduce(data.data(), count, dtype, ReduceOp::sum, job.root).wait();
    case Collective::gather:
      return group.gather(data.data(), count, dtype, job.root).wait();
    case Collective::scatter:
      return group.scatter(data.data(), count, dtype, job.root).wait();
    case Collective::all_to_all: {
      const std::vector<int64_t> counts(static_cast<size_t>(group.size()), count / group.size());
      output.resize(data.size());
      return group.all_to_all(data.data(), counts, output.data(), counts, dtype).wait();
    }
    case Collective::barrier:
      return group.barrier().wait();
    case Collective::message: {
      const int next = (group.rank() + 1) % group.size();
      const int before = (group.rank() + group.size() - 1) % group.size();
      output.resize(data.size());
      Handle sent = group.send(data.data(), count, dtype, next);
      group.receive(output.data(), count, dtype, before).wait();
      return sent.wait();
    }
  }
}

double now_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void say(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
}

int run(const Job& job, Context& context) {
  Group world = context.world();
  const bool odd = context.rank() == job.odd_rank;
  const auto pick = [&](const std::string& usual, const std::string& other) {
    return odd && !other.empty() ? other : usual;
  };
  const Collective collective = parse_collective(pick(job.collective, job.odd_collective)).value();
  const DType dtype = parse_dtype(pick(job.dtype, job.odd_dtype)).value();
  const int64_t count = odd && job.odd_count >= 0 ? job.odd_count : job.count;
  std::vector<std::byte> data, output;
  uint64_t hash = 14695981039346656037u;
  try {
    world.barrier().wait();
    say(fmt::format("ready {}", getpid()));
    fill(data, dtype, count, context.rank(), 0);
    while (job.endless) run_once(world, job, collective, dtype, count, data, output);
    for (int64_t i = 0; i < job.iterations; ++i) {
      fill(data, dtype, count, context.rank(), i);
      run_once(world, job, collective, dtype, count, data, output);
      hash = hash_of(output.empty() ? data : output, hash);
      if (job.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(job.pause_ms));
    }
  } catch (const PeerError& error) {
    say(fmt::format("error {:.6f} {}", now_seconds(), error.what()));
    return 1;
  }
  say(fmt::format("result {:016x}", hash));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("a job for tests", "rank_program");
  Job job;
  LaunchOptions options;
  cli::add_launch_flags(app, options);
  app.add_option("--collective", job.collective);
  app.add_option("--algorithm", job.algorithm);
  app.add_option("--dtype", job.dtype);
  app.add_option("--count", job.count);
  app.add_option("--iterations", job.iterations);
  app.add_flag("--endless", job.endless);
  app.add_option("--pause-ms", job.pause_ms);
  app.add_option("--root", job.root);
  app.add_option("--odd-rank", job.odd_rank);
  app.add_option("--odd-collective", job.odd_collective);
  app.add_option("--odd-dtype", job.odd_dtype);
  app.add_option("--odd-count", job.odd_count);
  CLI11_PARSE(app, argc, argv);
  try {
    return run_launched(options, [&](Context& context) { return run(job, context); });
  } catch (const Error& error) {
    say(fmt::format("refused {}", error.what()));
    return 1;
  }
}
