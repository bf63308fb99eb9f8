// Reads goldens and computes the numbers that they leave out; see golden.h.
#include "golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme::parity {
namespace {

using Json = nlohmann::json;

// Reads the fields of a JSON object one by one and complains of those that nobody asked for, so that a
// setting of a golden cannot be ignored by mistake.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}
  template <typename T>
  void read(const char* name, T& to) {
    if (!object_.contains(name)) return;
    to = object_[name].get<T>();
    seen_.insert(name);
  }
  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (!seen_.contains(name)) throw_error("the golden has a field '{}' that is not known here", name);
    }
  }

 private:
  const Json& object_;
  std::set<std::string> seen_;
};

ModelOptions read_model(const Json& object) {
  ModelOptions model;
  Fields fields(object);
  fields.read("family", model.family);
  fields.read("layers", model.layers);
  fields.read("heads", model.heads);
  fields.read("kv_heads", model.kv_heads);
  fields.read("hidden", model.hidden);
  fields.read("feed_forward", model.feed_forward);
  fields.read("vocab", model.vocab);
  fields.read("seq", model.seq);
  fields.read("source_seq", model.source_seq);
  fields.read("classes", model.classes);
  fields.read("rope_base", model.rope_base);
  fields.read("channels", model.channels);
  fields.read("width", model.width);
  fields.read("patch", model.patch);
  fields.read("window", model.window);
  fields.finish();
  return model;
}

TrainOptions read_train(const Json& object) {
  TrainOptions train;
  Fields fields(object);
  fields.read("accumulate", train.accumulate);
  fields.read("clip_norm", train.clip_norm);
  fields.read("label_smoothing", train.label_smoothing);
  fields.finish();
  return train;
}

OptimOptions read_optim(const Json& object) {
  OptimOptions optim;
  Fields fields(object);
  fields.read("kind", optim.kind);
  fields.read("weight_decay", optim.weight_decay);
  fields.read("beta1", optim.beta1);
  fields.read("beta2", optim.beta2);
  fields.read("eps", optim.eps);
  fields.read("momentum", optim.momentum);
  fields.read("trust", optim.trust);
  fields.finish();
  return optim;
}

Shape read_shape(const Json& list) {
  const std::vector<int64_t> dims = list;
  return Shape(dims);
}

GoldenTensor read_golden_tensor(const Json& object) {
  return {read_shape(object["shape"]), object["shift"],  object["scale"], object["norm"], object["moved"],
          object["largest"],           object["samples"]};
}

// The numbers of one name.
class Numbers {
 public:
  Numbers(const Golden& golden, const std::string& name) : key_{golden.seed, stream_id(name)} {}
  // As a double, which holds the 24 bits exactly.
  double uniform(int64_t element) const { return trireme::uniform(key_, static_cast<uint64_t>(element)); }
  int32_t integer(int64_t element, int64_t bound) const {
    return static_cast<int32_t>(uniform(element) * static_cast<double>(bound));
  }

 private:
  RngKey key_;
};

Batch make_images(const Golden& golden, int64_t rows, const std::string& suffix) {
  Batch batch;
  HostTensor images, labels;
  const Numbers pixels(golden, "images." + suffix), classes(golden, "labels." + suffix);
  const Shape& sample = golden.shape.sample;
  images.reset(DType::f32, {rows, sample[0], sample[1], sample[2]});
  labels.reset(DType::i32, {rows});
  for (int64_t i = 0; i < images.shape.elements(); ++i)
    images.values<float>()[i] = static_cast<float>(2 * pixels.uniform(i) - 1);
  for (int64_t i = 0; i < rows; ++i) labels.values<int32_t>()[i] = classes.integer(i, golden.model.classes);
  batch.tensors = {{"images", images}, {"labels", labels}};
  return batch;
}

Batch make_tokens(const Golden& golden, int64_t rows, const std::string& suffix) {
  Batch batch;
  HostTensor ids, targets;
  const int64_t length = golden.shape.sample.back();
  ids.reset(DType::i32, {rows, length});
  targets.reset(DType::i32, {rows, length});
  const Numbers tokens(golden, "tokens." + suffix), ignored(golden, "ignored." + suffix);
  const auto token = [&](int64_t row, int64_t t) {
    return tokens.integer(row * (length + 1) + t, golden.model.vocab);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const double chance =
        golden.ignored * static_cast<double>(row) / static_cast<double>(std::max<int64_t>(1, rows - 1));
    for (int64_t t = 0; t < length; ++t) {
      const int64_t i = row * length + t;
      const bool counts = ignored.uniform(i) >= chance;
      ids.values<int32_t>()[i] = token(row, t);
      targets.values<int32_t>()[i] = counts ? token(row, t + 1) : kIgnoreTarget;
    }
  }
  batch.tensors = {{"ids", ids}, {"targets", targets}};
  return batch;
}

Batch make_pairs(const Golden& golden, int64_t rows, const std::string& suffix) {
  Batch batch = make_tokens(golden, rows, suffix);
  HostTensor source, lengths;
  const int64_t longest = golden.shape.sample[0];
  source.reset(DType::i32, {rows, longest});
  lengths.reset(DType::i32, {rows});
  const Numbers tokens(golden, "source." + suffix), extents(golden, "lengths." + suffix);
  for (int64_t i = 0; i < rows * longest; ++i)
    source.values<int32_t>()[i] = tokens.integer(i, golden.model.vocab);
  for (int64_t row = 0; row < rows; ++row) lengths.values<int32_t>()[row] = 1 + extents.integer(row, longest);
  batch.tensors.insert(batch.tensors.begin(), {{"source", source}, {"source_length", lengths}});
  return batch;
}

}  // namespace

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_GOLDEN_DIR)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

Golden read_golden(const std::string& name) {
  std::ifstream file(std::filesystem::path(TRIREME_GOLDEN_DIR) / (name + ".json"));
  if (!file) throw_error("there is no golden '{}' in {}", name, TRIREME_GOLDEN_DIR);
  const Json json = Json::parse(file);
  Golden golden;
  golden.seed = json["seed"];
  golden.batches = json["batches"];
  golden.ignored = json["ignored"];
  golden.model = read_model(json["model"]);
  golden.train = read_train(json["train"]);
  golden.optim = read_optim(json["optim"]);
  golden.shape = {json["rows"], read_shape(json["sample"])};
  golden.rates = json["rates"].get<std::vector<double>>();
  golden.losses = json["losses"].get<std::vector<double>>();
  golden.norms = json["norms"].get<std::vector<double>>();
  const Json& evaluation = json["evaluation"];
  golden.evaluation = {evaluation["loss"], evaluation["count"], evaluation["correct"]};
  for (const auto& [key, value] : json["tensors"].items()) golden.tensors[key] = read_golden_tensor(value);
  return golden;
}

Batch make_batch(const Golden& golden, int64_t step) {
  const std::string suffix = std::to_string(step % golden.batches);
  const int64_t rows = golden.shape.rows * golden.train.accumulate;
  const int dims = golden.shape.sample.rank();
  Batch batch = dims == 3   ? make_images(golden, rows, suffix)
                : dims == 2 ? make_pairs(golden, rows, suffix)
                            : make_tokens(golden, rows, suffix);
  batch.rows = rows;
  return batch;
}

std::vector<float> starting_values(const Golden& golden, const std::string& name) {
  const GoldenTensor& tensor = golden.tensors.at(name);
  const Numbers numbers(golden, name);
  std::vector<float> values(tensor.shape.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const double u = numbers.uniform(static_cast<int64_t>(i));
    values[i] = static_cast<float>(tensor.shift + tensor.scale * (2 * u - 1));
  }
  return values;
}

void start(Trainer& trainer, const Golden& golden) {
  trainer.initialise(golden.seed);  // for the states of the optimizer
  std::set<std::string> missing;
  for (const auto& [name, tensor] : golden.tensors) missing.insert(name);
  for (const NamedTensor& tensor : trainer.model_tensors()) {
    const auto found = golden.tensors.find(tensor.name);
    if (found == golden.tensors.end()) throw_error("PyTorch's model has no '{}'", tensor.name);
    if (found->second.shape != tensor.view.shape) {
      throw_error("'{}' is {} here and {} in PyTorch", tensor.name, to_string(tensor.view.shape),
                  to_string(found->second.shape));
    }
    const std::vector<float> values = starting_values(golden, tensor.name);
    tensor.reach.write(0, values.data(), values.size() * sizeof(float));
    missing.erase(tensor.name);
  }
  if (!missing.empty()) throw_error("the model has no '{}'", *missing.begin());
}

States read_states(Trainer& trainer) {
  States states;
  for (const auto& list : {trainer.model_tensors(), trainer.optimizer_tensors()}) {
    for (const NamedTensor& tensor : list) {
      std::vector<float>& values = states[tensor.name];
      values.resize(tensor.view.elements());
      tensor.reach.read(0, values.data(), values.size() * sizeof(float));
    }
  }
  return states;
}

std::vector<StepResult> train(Trainer& trainer, const Golden& golden, int64_t first, int64_t last) {
  std::vector<StepResult> results;
  for (int64_t step = first; step < last; ++step) {
    Batch batch = make_batch(golden, step);
    results.push_back(trainer.step(batch, step, golden.rates[step % golden.steps()]));
  }
  return results;
}

}  // namespace trireme::parity
