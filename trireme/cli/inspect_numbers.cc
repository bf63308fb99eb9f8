// `trireme inspect numbers`: what number formats can hold, and three ways in which they lose numbers. All of
// it is computed with the conversions that training uses.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <functional>

#include "trireme/base/format_limits.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

constexpr std::array kTrainedFormats = {DType::f32, DType::bf16, DType::f16};

using OfFormat = std::function<float(DType format, const FormatLimits& limits)>;

void numbers_row(const std::string& what, const OfFormat& value) {
  fmt::print("  {:<44}", what);
  for (const DType format : kTrainedFormats) fmt::print(" {:>15.9g}", value(format, limits_of(format)));
  fmt::print("\n");
}

void numbers_head(std::string_view text) {
  fmt::print("\n{}\n  {:<44}", text, "");
  for (const DType format : kTrainedFormats) fmt::print(" {:>15}", name(format));
  fmt::print("\n");
}

float added(DType format, float a, float b) {
  return rounded_to(format, rounded_to(format, a) + rounded_to(format, b));
}

void print_numbers() {
  fmt::print("Number formats of train.precision, by their own conversions.\n");
  numbers_head("Limits");
  numbers_row("from 1 to the next number (epsilon)", [](DType, const FormatLimits& l) { return l.epsilon; });
  numbers_row("largest", [](DType, const FormatLimits& l) { return l.largest; });
  numbers_row("becomes infinite from", [](DType, const FormatLimits& l) { return l.overflows_from; });
  numbers_row("smallest with all digits (normal)",
              [](DType, const FormatLimits& l) { return l.smallest_normal; });
  numbers_row("smallest", [](DType, const FormatLimits& l) { return l.smallest; });

  constexpr float kTenth = 0.1f, kRate = 1e-4f, kGradient = 1e-8f, kLossScale = 65536;
  numbers_head("Rounding: a result is off by up to epsilon/2 of itself");
  numbers_row(fmt::format("{:g} becomes", kTenth),
              [](DType f, const FormatLimits&) { return rounded_to(f, kTenth); });
  numbers_row("off by at most, as a share", [](DType, const FormatLimits& l) { return l.epsilon / 2; });

  numbers_head("Swamping: an update below half of its weight's last digit changes nothing");
  numbers_row(fmt::format("1 + {:g} becomes", kRate),
              [](DType f, const FormatLimits&) { return added(f, 1, kRate); });
  numbers_row("a weight of 1 loses updates up to",
              [](DType, const FormatLimits& l) { return l.epsilon / 2; });
  numbers_row("adding ones stops at", [](DType, const FormatLimits& l) { return l.counts_up_to; });

  numbers_head("Underflow: what is too small becomes 0; a loss scale moves gradients up");
  numbers_row(fmt::format("{:g} becomes", kGradient),
              [](DType f, const FormatLimits&) { return rounded_to(f, kGradient); });
  numbers_row(
      fmt::format("the same with a loss scale of {:g}", kLossScale),
      [](DType f, const FormatLimits&) { return rounded_to(f, kGradient * kLossScale) / kLossScale; });
  numbers_row("becomes 0 up to", [](DType, const FormatLimits& l) { return l.underflows_up_to; });
  fmt::print("\ntrain.numbers_every=N counts all three in a run, every N steps.\n");
}

}  // namespace

int inspect_numbers(std::span<const std::string> arguments) {
  CLI::App app("Shows the limits of number formats, and what rounding, swamping and underflow do in each.",
               "trireme inspect numbers");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  print_numbers();
  return kOk;
}

}  // namespace trireme::cli
