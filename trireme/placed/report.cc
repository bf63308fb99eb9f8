// See report.h.
#include "trireme/placed/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trireme/base/statistics.h"

namespace trireme::placed {
namespace {

Comparison compare(const Job& job, std::vector<double> latency, double seconds,
                   std::vector<std::vector<double>> bytes, int64_t requests) {
  const auto answers = static_cast<double>(latency.size());
  Comparison result{.per_second = seconds > 0 ? answers / seconds : 0,
                    .median = quantile_of(latency, 0.5),
                    .p99 = quantile_of(latency, 0.99),
                    .bytes = std::move(bytes),
                    .cost = {}};
  result.cost.workers = place::cost_of(job.workflow, job.placement).workers;
  const double rate = place::request_rate(job.workflow) / static_cast<double>(std::max<int64_t>(1, requests));
  for (const place::TierLink& link : job.workflow.links) {
    const double kilobytes = result.bytes[link.from][link.to] / place::kBytesPerKilobyte * rate;
    result.cost.network += job.workflow.price_of_messages(link.from, link.to, kilobytes).value_or(0);
  }
  return result;
}

std::string row(const std::string& name, double simulated, double measured, int digits) {
  const std::string change =
      simulated != 0 ? fmt::format("{:+.1f} %", 100 * (measured / simulated - 1)) : std::string();
  return fmt::format("{:<24} {:>12.{}f} {:>12.{}f} {:>10}\n", name, simulated, digits, measured, digits,
                     change);
}

}  // namespace

Comparison simulated(const Job& job) {
  std::vector<place::Arrival> arrivals;
  for (const double time : job.arrivals) arrivals.push_back({time, 0});
  place::QueueReport queues =
      place::simulate_queues({job.placed.flow}, job.workers(), arrivals, job.placed.links);
  return compare(job, std::move(queues.latency), queues.seconds, std::move(queues.bytes),
                 std::ssize(arrivals));
}

Comparison measured(const Job& job, const RunReport& report) {
  return compare(job, report.latency, report.seconds, report.bytes, report.requests);
}

std::string to_text(const Job& job, const Comparison& simulated, const Comparison& measured,
                    const RunReport& report) {
  std::string text = fmt::format("{:<24} {:>12} {:>12}\n", fmt::format("{} requests", report.answered),
                                 "simulated", "measured");
  text += row("answers/s", simulated.per_second, measured.per_second, 2);
  text += row("latency, median, ms", 1e3 * simulated.median, 1e3 * measured.median, 1);
  text += row("latency, p99, ms", 1e3 * simulated.p99, 1e3 * measured.p99, 1);
  for (const place::TierLink& link : job.workflow.links)
    text += row(fmt::format("{} → {}, bytes", job.workflow.tiers[link.from], job.workflow.tiers[link.to]),
                simulated.bytes[link.from][link.to], measured.bytes[link.from][link.to], 0);
  text += row("cost, $/h", simulated.cost.total(), measured.cost.total(), 6);
  text += "\n";
  for (int w = 0; w < job.workers(); ++w) {
    const WorkerCount& count = report.workers[w];
    const double mean = count.items > 0 ? 1e3 * count.computed / static_cast<double>(count.items) : 0;
    text += fmt::format("{}: {} items, {:.2f} ms each{}\n", job.name_of_rank(w + 1), count.items, mean,
                        count.late > 0 ? fmt::format(", {} slower than the workflow says", count.late) : "");
  }
  return text;
}

std::string to_text(const Comparison& measured, const RunReport& report) {
  return fmt::format("{} of {} requests: {:.2f} answers/s, latency: median {:.1f} ms, p99 {:.1f} ms\n",
                     report.answered, report.requests, measured.per_second, 1e3 * measured.median,
                     1e3 * measured.p99);
}

nlohmann::ordered_json to_json(const Job& job, const Comparison& simulated, const Comparison& measured,
                               const RunReport& report) {
  using nlohmann::ordered_json;
  const auto one = [&](const Comparison& from) {
    ordered_json json = {
        {"answers_per_second", from.per_second},
        {"median_seconds", from.median},
        {"p99_seconds", from.p99},
        {"dollars_per_hour",
         {{"workers", from.cost.workers}, {"network", from.cost.network}, {"total", from.cost.total()}}},
        {"links", ordered_json::array()}};
    for (const place::TierLink& link : job.workflow.links)
      json["links"].push_back({{"from", job.workflow.tiers[link.from]},
                               {"to", job.workflow.tiers[link.to]},
                               {"bytes", from.bytes[link.from][link.to]}});
    return json;
  };
  ordered_json json = {{"requests", report.requests},
                       {"answered", report.answered},
                       {"simulated", one(simulated)},
                       {"measured", one(measured)},
                       {"workers", ordered_json::array()}};
  for (int w = 0; w < job.workers(); ++w) {
    const WorkerCount& count = report.workers[w];
    json["workers"].push_back({{"worker", job.placed.servers[w]},
                               {"items", count.items},
                               {"late", count.late},
                               {"computed_seconds", count.computed}});
  }
  return json;
}

std::string answer_lines(const Job& job, const RunReport& report) {
  std::string lines;
  for (size_t r = 0; r < report.texts.size(); ++r) {
    nlohmann::ordered_json line = {{"request", r}};
    for (size_t o = 0; o < job.workflow.ops.size(); ++o) {
      if (job.taken[r][o] != place::kNotTaken) line[job.workflow.ops[o].name] = report.texts[r][o];
    }
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return lines;
}

}  // namespace trireme::placed
