// See arrival_order.h.
#include "trireme/train/arrival_order.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/json.h"
#include "trireme/runtime/agree.h"

namespace trireme {
namespace {

// Who may be among the arrivals of the log of a rank.
struct Expected {
  int log_of, first, last;
  enum class Losses { kBorne, kNone } losses;
  const char *who, *exchanges;
};

Arrivals arrivals_of(const nlohmann::json& list, int64_t step, const std::string& path,
                     const Expected& expected) {
  Arrivals arrivals;
  const bool may_be_lost = expected.losses == Expected::Losses::kBorne;
  for (const nlohmann::json& one : list) {
    const int64_t number = one.is_number_integer() ? one.get<int64_t>() : INT64_MIN;
    const int64_t rank = may_be_lost && number < 0 ? -std::max(number, -INT64_MAX) : number;
    if (rank < expected.first || rank > expected.last)
      throw_error(
          "{}: in step {}, {} is among the arrivals; {} are {} to {}{}. It is the log of a run with other "
          "ranks",
          path, step, one.dump(), expected.who, expected.first, expected.last,
          may_be_lost ? ", with a minus where one was lost" : "");
    arrivals.push_back(static_cast<int>(number));
  }
  return arrivals;
}

// Lines that are about no rank are rank 0's.
ArrivalOrder parse(std::istream& in, const std::string& path, const Expected& expected) {
  ArrivalOrder result;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = parse_json(line, path);
    if (!object.is_object() || !object.contains("arrivals") || !object["arrivals"].is_array()) continue;
    const nlohmann::json step = object.value("step", nlohmann::json());
    if (!step.is_number_integer() || object.value("rank", nlohmann::json(0)) != expected.log_of) continue;
    result[step.get<int64_t>()] = arrivals_of(object["arrivals"], step.get<int64_t>(), path, expected);
  }
  if (result.empty())
    throw_error("{} has no arrivals{}; the metrics.jsonl of a run with the exchange {} expected", path,
                expected.log_of == 0 ? "" : fmt::format(" of rank {}", expected.log_of), expected.exchanges);
  return result;
}

}  // namespace

ArrivalOrder parse_arrivals(std::istream& in, const std::string& path, const Agreement& agreement, int ranks,
                            int rank) {
  if (const Servers* servers = agreement.servers())
    return parse(in, path,
                 {rank, servers->rank_of(0), ranks - 1, Expected::Losses::kBorne, "workers",
                  "server, async_server or ssp"});
  return parse(
      in, path,
      {rank, 0, ranks - 1, Expected::Losses::kNone, "ranks", "ad_psgd, or d_psgd with a staleness,"});
}

ArrivalOrder read_arrivals(const std::string& path, const Agreement& agreement, int ranks, int rank) {
  expect_regular_file(path, "the metrics.jsonl of the run that is to be made again");
  std::ifstream in(path);
  if (!in)
    throw_error("cannot read {}; the metrics.jsonl of the run that is to be made again expected", path);
  return parse_arrivals(in, path, agreement, ranks, rank);
}

// As rows of numbers, as long as the longest: of each step its number, how many ranks follow, and these.
std::vector<ArrivalOrder> gathered_arrivals(const ArrivalOrder& own, Communicator& communicator,
                                            std::string_view axis) {
  const auto [rank, ranks] = communicator.place(axis);
  std::vector<int64_t> numbers = {std::ssize(own)};
  for (const auto& [step, arrivals] : own) {
    numbers.push_back(step);
    numbers.push_back(std::ssize(arrivals));
    numbers.insert(numbers.end(), arrivals.begin(), arrivals.end());
  }
  const auto width =
      agreed(&communicator, axis, int64_t{std::ssize(numbers)}, Communicator::Reduction::kMax);
  std::vector<int64_t> all(static_cast<size_t>(width * ranks));
  std::ranges::copy(numbers, all.begin() + rank * width);
  communicator.all_gather(axis, reinterpret_cast<std::byte*>(all.data()), std::ssize(all), DType::i64);
  std::vector<ArrivalOrder> result(static_cast<size_t>(ranks));
  for (int from = 0; from < ranks; ++from) {
    auto at = all.begin() + from * width;
    for (int64_t left = *at++; left > 0; --left) {
      Arrivals& arrivals = result[static_cast<size_t>(from)][*at++];
      for (int64_t count = *at++; count > 0; --count) arrivals.push_back(static_cast<int>(*at++));
    }
  }
  return result;
}

}  // namespace trireme
