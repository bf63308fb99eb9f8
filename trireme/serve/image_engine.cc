// See image_engine.h.
#include "trireme/serve/image_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step.h"
#include "trireme/train/tensor_access.h"

namespace trireme::serve {
namespace {

std::vector<int64_t> batch_sizes(int most) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

Program classifying_program(const Model& model, const Shape& image, const std::vector<int64_t>& sizes,
                            const Device& device) {
  std::vector<StepSegment> segments;
  for (const int64_t size : sizes) {
    Graph graph = forward_graph(model, {size, image}, DType::f32);
    graph.name = fmt::format("forward{}", size);
    segments.emplace_back(std::move(graph), SegmentKind::kEvaluate);
  }
  return build_program(std::move(segments), workspace_query(device));
}

std::vector<float> softmax(std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  std::vector<float> shares;
  for (const float logit : logits) shares.push_back(static_cast<float>(std::exp(logit - top) / sum));
  return shares;
}

float of_channel(const std::vector<float>& values, size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

void check_form(const ImageForm& form) {
  const int64_t channels = form.shape.rank() == 3 ? form.shape[0] : 0;
  if ((channels != 1 && channels != 3) || form.shape[1] < 1 || form.shape[2] < 1)
    throw_error("images of the form {} can not be served; [1 or 3 channels, height, width] expected",
                to_string(form.shape));
  for (const auto* values : {&form.mean, &form.deviation}) {
    if (values->size() != 1 && std::ssize(*values) != channels)
      throw_error("{} values to normalise {} channels by; one expected, or one for each", values->size(),
                  channels);
  }
}

std::vector<float> formed(const Image& image, const ImageForm& form) {
  const Image fitted = fit_image(image, form.shape[1], form.shape[2]);
  const auto channels = static_cast<size_t>(form.shape[0]), plane = fitted.pixels.size() / 3;
  std::vector<float> values(channels * plane);
  for (size_t c = 0; c < channels; ++c) {
    const float mean = of_channel(form.mean, c), deviation = of_channel(form.deviation, c);
    for (size_t i = 0; i < plane; ++i) {
      const uint8_t* const pixel = &fitted.pixels[3 * i];
      // Grey of a colour (ITU-R BT.601); of a grey that comes as three, that grey itself.
      const int byte = channels == 3 ? pixel[c] : (77 * pixel[0] + 150 * pixel[1] + 29 * pixel[2]) >> 8;
      values[c * plane + i] = (static_cast<float>(byte) / 255.0f - mean) / deviation;
    }
  }
  return values;
}

ImageEngine::ImageEngine(const Model& model, const Shape& image, Device& device, const Limits& limits)
    : limits_(limits),
      sizes_(batch_sizes(limits.batch)),
      input_(batch_tensors(model.record, image)[0].name),
      executor_(classifying_program(model, image, sizes_, device), device),
      queue_(limits.waiting) {
  const Graph& graph = executor_.program().segments[0].graph;
  for (const Output& output : graph.outputs) {
    if (output.name == "logits") classes_ = graph.values[output.value].type.shape.back();
  }
}

ImageEngine::~ImageEngine() {
  if (worker_.joinable()) drain(0);
}

std::vector<PartView> ImageEngine::weights() {
  std::vector<PartView> parts;
  for (const State& slot : executor_.program().states)
    parts.push_back({slot.name, view_of(slot), all_of(slot.type.shape), reach_of(executor_, slot.name)});
  return parts;
}

void ImageEngine::start() {
  worker_ = std::thread([this] { work(); });
}

std::vector<std::future<std::vector<float>>> ImageEngine::submit(std::vector<std::vector<float>> images) {
  std::vector<Waiting> jobs;
  std::vector<std::future<std::vector<float>>> answers;
  for (std::vector<float>& image : images)
    answers.push_back(jobs.emplace_back(Waiting{std::move(image), {}}).answer.get_future());
  queue_.add(std::move(jobs));
  return answers;
}

int ImageEngine::drain(double seconds) {
  queue_.close();
  {
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_done_; })) cut_ = true;
  }
  worker_.join();
  return cut_images_;
}

ImageEngine::Counts ImageEngine::counts() const {
  return {images_, batches_, static_cast<int>(queue_.size())};
}

void ImageEngine::classify(std::vector<Waiting>& batch) {
  const auto segment = static_cast<int>(
      std::ranges::find_if(sizes_, [&](int64_t size) { return size >= std::ssize(batch); }) - sizes_.begin());
  const auto rows = static_cast<size_t>(sizes_[segment]), classes = static_cast<size_t>(classes_);
  std::vector<float> images;
  images.reserve(rows * batch[0].image.size());
  for (const Waiting& one : batch) images.insert(images.end(), one.image.begin(), one.image.end());
  images.resize(rows * batch[0].image.size());
  executor_.set_input(segment, input_, images.data(), images.size() * sizeof(float));
  executor_.run(segment);
  std::vector<float> logits(rows * classes);
  executor_.read_output(segment, "logits", logits.data(), logits.size() * sizeof(float));
  images_ += std::ssize(batch);
  ++batches_;
  for (size_t row = 0; row < batch.size(); ++row)
    batch[row].answer.set_value(softmax(std::span(logits).subspan(row * classes, classes)));
}

void ImageEngine::work() {
  for (;;) {
    std::vector<Waiting> batch =
        queue_.take(static_cast<size_t>(limits_.batch), WorkQueue<Waiting>::When::kWait, limits_.gather);
    if (batch.empty()) break;
    try {
      if (cut_) {
        cut_images_ += static_cast<int>(batch.size());
        throw RequestError(503, "shutting_down", "the server was shut down before it came to this image");
      }
      classify(batch);
    } catch (...) {
      for (Waiting& one : batch) one.answer.set_exception(std::current_exception());
    }
  }
  const std::scoped_lock lock(mutex_);
  is_done_ = true;
  done_.notify_all();
}

}  // namespace trireme::serve
