// See prediction_report.h.
#include "trireme/cli/prediction_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/text.h"

namespace trireme::cli {
namespace {

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

// Of a rank's step, by where it goes.
void print_time(const sim::SimReport& report, const Mesh& mesh) {
  fmt::print("\n{:>7} {:>7} {:>11} {:>11}", "rank", "ranks", "work ms", "bubble ms");
  for (const Axis& axis : mesh.axes()) fmt::print(" {:>11}", axis.name + " ms");
  fmt::print("  (what waits for collectives and messages, by axis)\n");
  for (const sim::RankReport& rank : report.ranks) {
    fmt::print("{:>7} {:>7} {:>11.3f} {:>11.3f}", rank.rank, rank.stands_for, rank.time.work_seconds * 1e3,
               rank.time.bubble_seconds * 1e3);
    for (const double seconds : rank.time.exposed_seconds) fmt::print(" {:>11.3f}", seconds * 1e3);
    fmt::print("\n");
  }
}

void print_memory(const sim::SimReport& report) {
  const sim::RankReport& fullest = report.fullest();
  fmt::print("\nmemory of rank {}, which is the fullest: {} of {}\n", fullest.rank,
             format_bytes(fullest.memory.peak_bytes),
             format_bytes(static_cast<size_t>(fullest.device->memory_bytes)));
  for (const auto& [kind, bytes] : fullest.memory.kinds) {
    if (bytes > 0) fmt::print("  {:<14} {:>12}\n", kind, format_bytes(bytes));
  }
  const double over = static_cast<double>(fullest.memory.peak_bytes) - fullest.device->memory_bytes;
  if (over > 0)
    fmt::print(
        "it does not fit, by {}: more stages or a larger tensor axis, zero1 to zero3, recompute or a "
        "smaller microbatch need less\n",
        format_bytes(static_cast<size_t>(over)));
}

}  // namespace

void print_prediction(const bench::Prediction& prediction, const bench::StepSetup& setup,
                      const std::string& cluster, const Plan& plan) {
  const sim::SimReport& report = prediction.report;
  const auto line = [](std::string_view name, const std::string& value) {
    fmt::print("  {:<18} {}\n", name, value);
  };
  fmt::print(
      "{}: {}, {:.1f}M parameters, batch {} of {} in {} microbatches, plan {} on '{}', {} ranks of {}\n",
      setup.name, setup.config.model.family, static_cast<double>(report.parameters) / 1e6,
      setup.config.train.batch, to_string(setup.shape.sample), setup.config.train.accumulate, plan.preset,
      to_string(plan.mesh), plan.mesh.ranks(), cluster);
  line("step", fmt::format("{:.3f} s", report.step_seconds));
  line(fmt::format("{}/s", setup.unit()), fmt::format("{:.0f}", prediction.units_per_second));
  line("MFU, HFU", fmt::format("{}, {}", percent(prediction.utilisation(prediction.model_flops)),
                               percent(prediction.utilisation(report.flops))));
  line("per rank", fmt::format("{:.1f} TFLOP/s of the model, {:.1f} with what is made again",
                               prediction.model_flops / report.step_seconds / plan.mesh.ranks() / 1e12,
                               report.flops / report.step_seconds / plan.mesh.ranks() / 1e12));
  if (report.steps > 1) line("average of", fmt::format("{} steps", report.steps));
  for (const sim::EarlyStep& early : report.early)
    line(fmt::format("steps to {}", early.until),
         fmt::format("{:.3f} s, {} sent by all ranks", early.step_seconds,
                     format_bytes(static_cast<size_t>(early.bytes_sent))));
  line("bubble", percent(report.bubble));
  const sim::RankTime& most = std::ranges::max_element(report.ranks, {}, [](const sim::RankReport& rank) {
                                return rank.time.offload_seconds;
                              })->time;
  if (most.offload_bytes > 0)
    line("offload",
         fmt::format("{} come and go a step, for which the rank that waits most waits {:.3f} ms",
                     format_bytes(static_cast<size_t>(most.offload_bytes)), most.offload_seconds * 1e3));
  for (const Reach reach : {Reach::kInside, Reach::kAcross, Reach::kSpine}) {
    const double bytes = report.bytes[static_cast<size_t>(reach)];
    if (bytes > 0)
      line(fmt::format("bytes {}", name(reach)),
           fmt::format("{} by all ranks", format_bytes(static_cast<size_t>(bytes))));
  }
  double watts = 0, price = 0;
  for (const sim::RankReport& rank : report.ranks) {
    watts += rank.stands_for * rank.device->watts;
    price += rank.stands_for * rank.device->price_per_hour;
  }
  if (watts > 0)
    line("energy", fmt::format("{:.3f} kWh a step at most", watts * report.step_seconds / 3.6e6));
  if (price > 0) line("price", fmt::format("{:.4f} a step", price * report.step_seconds / 3600));
  print_time(report, plan.mesh);
  print_memory(report);
}

nlohmann::ordered_json prediction_json(const bench::Prediction& prediction, const bench::StepSetup& setup,
                                       const std::string& cluster, const Plan& plan) {
  const sim::SimReport& report = prediction.report;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const sim::RankReport& rank : report.ranks) {
    nlohmann::ordered_json exposed = nlohmann::ordered_json::object(), memory = exposed;
    for (size_t a = 0; a < plan.mesh.axes().size(); ++a)
      exposed[plan.mesh.axes()[a].name] = rank.time.exposed_seconds[a];
    for (const auto& [kind, bytes] : rank.memory.kinds) memory[kind] = bytes;
    ranks.push_back({{"rank", rank.rank},
                     {"stands_for", rank.stands_for},
                     {"work_seconds", rank.time.work_seconds},
                     {"bubble_seconds", rank.time.bubble_seconds},
                     {"offload_seconds", rank.time.offload_seconds},
                     {"offload_bytes", rank.time.offload_bytes},
                     {"exposed_seconds", exposed},
                     {"bytes_sent", rank.time.bytes_sent},
                     {"peak_bytes", rank.memory.peak_bytes},
                     {"memory_bytes", memory}});
  }
  nlohmann::ordered_json result = {
      {"config", setup.name},
      {"plan", plan.preset},
      {"mesh", to_string(plan.mesh)},
      {"cluster", cluster},
      {"ranks", plan.mesh.ranks()},
      {"parameters", report.parameters},
      {"predicted_seconds", report.step_seconds},
      {"steps", report.steps},
      {fmt::format("{}_per_second", setup.unit()), prediction.units_per_second},
      {"model_flops_per_step", prediction.model_flops},
      {"hardware_flops_per_step", report.flops},
      {"model_flops_utilisation", prediction.utilisation(prediction.model_flops)},
      {"hardware_flops_utilisation", prediction.utilisation(report.flops)},
      {"bubble", report.bubble},
      {"bytes_sent", report.bytes_sent},
      {"bytes_inside", report.bytes[0]},
      {"bytes_across", report.bytes[1]},
      {"bytes_spine", report.bytes[2]},
      {"per_rank", ranks}};
  for (const sim::EarlyStep& early : report.early)
    result["early_steps"].push_back({{"until", early.until},
                                     {"predicted_seconds", early.step_seconds},
                                     {"bytes_sent", early.bytes_sent}});
  if (!report.drawn_seconds.empty()) result["drawn_seconds"] = report.drawn_seconds;
  return result;
}

}  // namespace trireme::cli
