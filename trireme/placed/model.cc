// See model.h.
#include "trireme/placed/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"
#include "trireme/data/loader.h"
#include "trireme/run/evaluate.h"
#include "trireme/run/run_folder.h"
#include "trireme/run/trained_model.h"

namespace trireme::placed {
namespace {

namespace fs = std::filesystem;

// One item at a time, with one thread: what the profile measures is what the run does.
serve::ServeOptions one_at_a_time(int tokens) {
  serve::ServeOptions options;
  options.limits.batch = 1;
  options.limits.gather = 0;
  options.limits.tokens = std::max(1, tokens);
  options.threads = 1;
  return options;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::string beside(const std::string& folder, const std::string& run) {
  return (fs::path(folder) / run).lexically_normal().string();
}

bool takes_images(const std::string& run) {
  return open_trained_model(run).model.record.input == InputKind::kImages;
}

std::string text_of(const Shape& image) {
  return image.rank() == 3 ? fmt::format("{}x{}x{}", image[0], image[1], image[2]) : "no images";
}

}  // namespace

std::string newest_weights(const std::string& run) {
  const std::string folder = open_trained_model(run).weights;
  constexpr size_t kMostBytes = size_t{1} << 26;
  const fs::path sums = fs::path(folder) / "checksums.json";
  const std::string name = fs::path(folder).filename().string();
  if (!fs::exists(sums)) return name;
  const std::string text = read_input_file(sums.string(), kMostBytes, "the checksums of a checkpoint");
  return fmt::format("{} {:016x}", name, hash_of(text.data(), text.size()));
}

RunModel::RunModel(const std::string& run, int tokens)
    : model_(open_trained_model(run), one_at_a_time(tokens)), tokens_(tokens) {
  if (const auto images = model_.images()) image_ = images->form.shape;
  if (model_.text() && tokens < 1)
    throw_error("{} writes text; give its variant `tokens`, how many it is to write", run);
}

Made RunModel::classify(std::span<const std::byte> pixels) {
  const serve::ServedImages served = *model_.images();
  const size_t channels = static_cast<size_t>(image_[0]), plane = pixels.size() / channels;
  std::vector<float> values(pixels.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / plane;
    const auto of = [channel](const std::vector<float>& all) {
      return all.size() == 1 ? all[0] : all[channel];
    };
    values[i] = (static_cast<float>(std::to_integer<int>(pixels[i])) / 255.0f - of(served.form.mean)) /
                of(served.form.deviation);
  }
  std::vector<std::vector<float>> batch;
  batch.push_back(std::move(values));
  Made made{bytes_of(served.engine.submit(std::move(batch))[0].get()), ""};
  made.text = likeliest_class(served.classes, made.output);
  return made;
}

Made RunModel::write(const std::string& prompt) {
  return write(model_.text()->tokenizer.encode(prompt));
}

Made RunModel::write(std::vector<int32_t> prompt) {
  const serve::ServedText served = *model_.text();
  const auto written = served.engine.submit(
      {.prompt = std::move(prompt), .options = {.tokens = tokens_, .temperature = 0}, .end = {}});
  std::vector<int32_t> tokens, known;
  while (const auto token = written->next()) {
    tokens.push_back(*token);
    if (*token < served.tokenizer.vocab_size()) known.push_back(*token);
  }
  if (written->end() != serve::WrittenText::End::kLength)
    throw_error("a text ended after {} of {} tokens: {}", tokens.size(), tokens_, written->problem());
  return {bytes_of(tokens), printable(served.tokenizer.decode(known))};
}

std::string likeliest_class(const std::vector<std::string>& classes, std::span<const std::byte> output) {
  std::vector<float> shares(output.size() / sizeof(float));
  std::memcpy(shares.data(), output.data(), shares.size() * sizeof(float));
  const auto index = static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
  return index < classes.size() ? classes[index] : fmt::format("class {}", index);
}

size_t image_message_bytes(const Shape& image) {
  return kNumberBytes + static_cast<size_t>(image.elements());
}

HeldOutImages::HeldOutImages(const std::string& run, int64_t most, const std::string& default_text) {
  const OpenedData data = open_evaluation_data(open_trained_model(run), default_text);
  shape_ = data.input;
  if (shape_.rank() != 3) throw_error("{} has no held-out images, which a source sends", run);
  // In the order of the files, as `trireme eval --predictions` has them.
  std::vector<uint32_t> order(static_cast<size_t>(data.validation->size()));
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return data.validation->origin(i).number; });
  LoaderOptions loading = evaluation(1);
  loading.own = std::move(order);
  Loader loader(data.validation, loading);
  const std::string name = data.validation->tensors()[0].name;
  for (int64_t i = 0; i < std::min(most, data.validation->size()); ++i) {
    const std::span<const float> values = loader.next().at(name).values<float>();
    Bytes image(values.size());
    const size_t plane = values.size() / static_cast<size_t>(shape_[0]);
    for (size_t v = 0; v < values.size(); ++v) {
      const size_t channel = data.mean.size() == 1 ? 0 : v / plane;
      const float share = values[v] * data.deviation[channel] + data.mean[channel];
      image[v] = static_cast<std::byte>(std::clamp(std::lround(share * 255), 0L, 255L));
    }
    images_.push_back(std::move(image));
  }
}

void check_models(const Job& job, const std::string& folder) {
  for (size_t s = 0; s < job.workflow.sources.size(); ++s) {
    const place::Source& source = job.workflow.sources[s];
    if (source.held_out.empty())
      throw_error(
          "source '{}' has nothing to send; give it held_out, a run whose held-out images are its messages",
          source.name);
  }
  for (size_t o = 0; o < job.workflow.ops.size(); ++o) {
    const place::Op& op = job.workflow.ops[o];
    const place::Variant& variant = job.variant(static_cast<int>(o));
    const std::string whose = fmt::format("variant '{}' of op '{}'", variant.name, op.name);
    if (variant.run.empty())
      throw_error("{} has no run, and can not run; `trireme profile --inference RUN` writes one that has",
                  whose);
    const std::string run = beside(folder, variant.run);
    if (!fs::is_directory(run))
      throw_error("{} is of the run {}, and there is no such folder; train it, or correct `run`", whose, run);
    const std::string weights = newest_weights(run);
    if (!variant.weights.empty() && variant.weights != weights)
      throw_error(
          "{} was measured with the weights {}, and {} has {} now: its figures are older than the run; measure it "
          "again with `trireme profile --inference {}`",
          whose, variant.weights, run, weights, run);
    const auto images = std::ranges::count(op.inputs, true, &place::Op::Input::is_source);
    if (takes_images(run) && images != 1)
      throw_error("op '{}' classifies images and has {} sources among its inputs; one expected", op.name,
                  images);
    if (!takes_images(run) && images > 0)
      throw_error("op '{}' writes text and takes images of a source; give it ops that classify them",
                  op.name);
  }
  for (size_t o = 0; o < job.workflow.ops.size(); ++o) {
    if (takes_images(beside(folder, job.variant(static_cast<int>(o)).run))) continue;
    for (const place::Op::Input& input : job.workflow.ops[o].inputs) {
      if (!takes_images(beside(folder, job.variant(input.index).run)))
        throw_error("op '{}' goes on with what '{}' writes, which is not run yet; ops that classify expected",
                    job.workflow.ops[o].name, job.workflow.ops[input.index].name);
    }
  }
}

WorkerModels::WorkerModels(const Job& job, int rank, const std::string& folder) : job_(job) {
  for (size_t o = 0; o < job.workflow.ops.size(); ++o) {
    const place::Variant& variant = job.variant(static_cast<int>(o));
    const auto& routes = job.placed.flow[o].routes;
    const std::string run = beside(folder, variant.run);
    classes_.push_back(read_data_description(run).classes);
    models_.push_back(nullptr);
    if (std::ranges::find(routes, rank - 1, &place::Route::server) == routes.end()) continue;
    models_.back() = std::make_unique<RunModel>(run, variant.tokens);
    // The first item takes longer than all others.
    RunModel& model = *models_.back();
    const Made made = model.writes() ? model.write("first")
                                     : model.classify(Bytes(static_cast<size_t>(model.image().elements())));
    const double kilobytes =
        static_cast<double>(kNumberBytes + made.output.size()) / place::kBytesPerKilobyte;
    if (std::abs(kilobytes - variant.kilobytes) > 1e-6)
      throw_error("variant '{}' of op '{}' has kilobytes = {}, and its outputs are of {}; measure it again",
                  variant.name, job.workflow.ops[o].name, variant.kilobytes, kilobytes);
    const auto& inputs = job.workflow.ops[o].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_source) continue;
      const size_t bytes = job.message_bytes(static_cast<int>(o), static_cast<int>(i));
      if (bytes != image_message_bytes(model.image()))
        throw_error("op '{}' takes images {}, which are messages of {} kilobytes, and source '{}' has {}",
                    job.workflow.ops[o].name, text_of(model.image()),
                    static_cast<double>(image_message_bytes(model.image())) / place::kBytesPerKilobyte,
                    job.workflow.sources[inputs[i].index].name,
                    static_cast<double>(bytes) / place::kBytesPerKilobyte);
    }
  }
}

Made WorkerModels::make(int op, std::span<const Bytes> inputs) {
  const auto& from = job_.workflow.ops[op].inputs;
  if (!models_[op]->writes()) {
    const auto image = std::ranges::find(from, true, &place::Op::Input::is_source);
    return models_[op]->classify(inputs[image - from.begin()]);
  }
  std::vector<std::string> classes;
  for (size_t i = 0; i < from.size(); ++i)
    classes.push_back(likeliest_class(classes_[from[i].index], inputs[i]));
  return models_[op]->write(join(classes, " "));
}

SourceImages::SourceImages(const Job& job, const std::string& folder, const std::string& default_text) {
  for (const place::Source& source : job.workflow.sources) {
    images_.emplace_back(beside(folder, source.held_out), std::ssize(job.arrivals), default_text);
    const double kilobytes =
        static_cast<double>(image_message_bytes(images_.back().shape())) / place::kBytesPerKilobyte;
    if (std::abs(kilobytes - source.kilobytes) > 1e-6)
      throw_error("source '{}' has kilobytes = {}, and the held-out images of {} are messages of {}",
                  source.name, source.kilobytes, source.held_out, kilobytes);
  }
}

}  // namespace trireme::placed
