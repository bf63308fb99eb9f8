// See inference_profile.h.
#include "trireme/placed/inference_profile.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/statistics.h"
#include "trireme/base/text.h"
#include "trireme/data/loader.h"
#include "trireme/placed/model.h"
#include "trireme/run/evaluate.h"
#include "trireme/run/run_setup.h"
#include "trireme/runtime/device.h"

namespace trireme::placed {
namespace {

constexpr int kPromptTokens = 8;

// Beginnings of held-out texts, about as long as the names of a few classes.
std::vector<std::vector<int32_t>> held_out_prompts(const OpenedData& data, int most) {
  Loader loader(data.validation, evaluation(1));
  const std::string name = data.validation->tensors()[0].name;
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < std::min<int64_t>(most, data.validation->size()); ++i) {
    const std::span<const int32_t> tokens = loader.next().at(name).values<int32_t>();
    const auto length = std::min<size_t>(kPromptTokens, tokens.size());
    prompts.emplace_back(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(length));
  }
  return prompts;
}

template <typename Answer>
std::vector<double> times_of(int items, const Answer& answer) {
  constexpr int kWarm = 5;
  std::vector<double> times;
  for (int i = -kWarm; i < items; ++i) {
    const Clock::time_point begin = Clock::now();
    answer(i + kWarm);
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return times;
}

}  // namespace

InferenceProfile profile_inference(const ProfileQuestion& question) {
  const TrainedModel trained = open_trained_model(question.run);
  InferenceProfile profile;
  profile.name = std::filesystem::path(question.run).lexically_normal().filename().string();
  if (profile.name.empty())
    profile.name = std::filesystem::path(question.run).lexically_normal().parent_path().filename().string();
  profile.run = question.run;
  profile.family = trained.model.record.family;
  profile.weights = newest_weights(question.run);
  profile.items = question.items;
  const OpenedData data = open_evaluation_data(trained, question.default_text);
  RunModel model(question.run, question.tokens);
  Made last;
  std::vector<double> times;
  if (model.writes()) {
    const auto prompts = held_out_prompts(data, question.items);
    times = times_of(question.items,
                     [&](int i) { last = model.write(prompts[static_cast<size_t>(i) % prompts.size()]); });
  } else {
    const HeldOutImages images(question.run, question.items, question.default_text);
    times = times_of(question.items, [&](int i) { last = model.classify(images[i]); });
    profile.image_kilobytes =
        static_cast<double>(image_message_bytes(images.shape())) / place::kBytesPerKilobyte;
  }
  profile.median = median_of(times);
  profile.p90 = quantile_of(times, 0.9);
  profile.kilobytes = static_cast<double>(kNumberBytes + last.output.size()) / place::kBytesPerKilobyte;
  const TrainOptions& train = trained.config.config.train;
  const std::unique_ptr<Device> device = make_device({.kind = train.device,
                                                      .threads = thread_count(train, 1),
                                                      .rank_here = 0,
                                                      .f32_products = f32_products_of(train)});
  EvaluateOptions options;
  options.batches = question.batches;
  const EvaluationReport report = evaluate_model(trained, data, *device, {}, options);
  if (!report.accuracy)
    throw_error("{} has no accuracy: its family {} has no logits", question.run, profile.family);
  profile.accuracy = *report.accuracy;
  profile.samples = report.samples;
  return profile;
}

std::string to_toml(const ProfileQuestion& question, const InferenceProfile& profile) {
  std::vector<std::string> milliseconds;
  for (const auto& [name, slower] : question.workers)
    milliseconds.push_back(fmt::format("{} = {:.4g}", name, 1e3 * profile.median * slower));
  std::string accuracy = fmt::format("{:.4g}", profile.accuracy);
  if (!question.inputs.empty()) {
    std::vector<std::string> numbers;
    for (const double input : question.inputs) numbers.push_back(fmt::format("{:g}", input));
    accuracy = fmt::format("[[{}, {}]]", join(numbers, ", "), accuracy);
  }
  std::string text = fmt::format(
      "# {} on {} held-out samples; {} items with one thread: median {:.4g} ms, 90 % within {:.4g} ms{}\n",
      profile.family, profile.samples, profile.items, 1e3 * profile.median, 1e3 * profile.p90,
      profile.image_kilobytes > 0 ? fmt::format("; takes images of kilobytes = {}", profile.image_kilobytes)
                                  : "");
  text += fmt::format("[[op.variant]]\nname = \"{}\"\nrun = \"{}\"\nweights = \"{}\"\nkilobytes = {}\n",
                      profile.name, profile.run, profile.weights, profile.kilobytes);
  if (question.tokens > 0) text += fmt::format("tokens = {}\n", question.tokens);
  return text + fmt::format("milliseconds = {{{}}}\naccuracy = {}\n", join(milliseconds, ", "), accuracy);
}

}  // namespace trireme::placed
