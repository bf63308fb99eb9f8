// Rules between settings. Each refusal has the numbers and a way out. What one field alone may hold is in
// config_fields.cc; what a model or a device cannot do is refused by that model or device.
#include <algorithm>
#include <bit>
#include <iterator>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/models/model.h"
#include "trireme/run/config.h"
#include "trireme/run/config_fields.h"

namespace trireme {
namespace {

// What single fields hold is checked when they are read, but a Config may also be filled in by code.
enum class Family { kOfTheTable, kAny };
std::vector<std::string> field_problems(Config config, Family family) {
  std::vector<std::string> problems;
  for (const Field& field : config_fields(config)) {
    if (family == Family::kAny && field.value == decltype(field.value)(&config.model.family)) continue;
    try {
      std::visit([&](auto* value) { assign(field, *value, "config"); }, field.value);
    } catch (const Error& error) {
      problems.push_back(error.what());
    }
  }
  return problems;
}

bool is_any_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// What does not go together, collected rule by rule.
class RulesBetween {
 public:
  RulesBetween(const Config& config, const ModelRecord& model) : c_(config), model_(model) {}

  std::vector<std::string> problems() {
    std::ranges::move(model_.problems(c_.model), std::back_inserter(problems_));
    of_data();
    of_batch();
    of_start_and_end();
    of_precision();
    of_learning_rate();
    return std::move(problems_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void of_data() {
    const bool language = reads_text(model_), images = model_.input == InputKind::kImages;
    const bool pairs = model_.input == InputKind::kPairs;
    const bool text_data = is_any_of(c_.data.kind, {"text", "tokens", "pairs"});
    if ((language || images) && c_.data.kind != "auto" && language != text_data) {
      add("model.family = {} learns from {}, but data.kind = {}; try data.kind {}", c_.model.family,
          language ? "text" : "images", c_.data.kind,
          pairs      ? "pairs"
          : language ? "text or tokens"
                     : "mnist, cifar10 or images");
    } else if (language && c_.data.kind != "auto" && pairs != (c_.data.kind == "pairs")) {
      add("model.family = {} learns from {}, but data.kind = {}; try data.kind {}", c_.model.family,
          pairs ? "pairs of a source and a target" : "text", c_.data.kind,
          pairs ? "pairs" : "text or tokens");
    }
    if ((images || pairs || c_.data.kind == "tokens") && c_.data.path.empty()) {
      add("model.family = {} with data.kind = {} needs data.path, the file or folder to read",
          c_.model.family, c_.data.kind);
    }
    if (!c_.data.tokenizer_path.empty() && c_.data.tokenizer != "gpt2") {
      add("data.tokenizer_path = {} is for data.tokenizer = gpt2, but data.tokenizer is {}; give the path as "
          "data.tokenizer instead",
          c_.data.tokenizer_path, c_.data.tokenizer);
    }
    if ((c_.data.image_height == 0) != (c_.data.image_width == 0)) {
      add("data.image_height = {} and data.image_width = {} go together; give both, or neither to keep the "
          "size of the images",
          c_.data.image_height, c_.data.image_width);
    }
    if (c_.data.mean.empty() != c_.data.deviation.empty()) {
      add("data.mean has {} values and data.deviation {}; give both, or neither to have them measured",
          c_.data.mean.size(), c_.data.deviation.size());
    }
    if (language && (c_.data.image_height > 0 || !c_.data.mean.empty())) {
      add("model.family = {} learns from text, but data.image_height, data.image_width, data.mean or "
          "data.deviation is set, which are for images",
          c_.model.family);
    }
  }

  void of_batch() {
    if (c_.train.batch % c_.train.accumulate != 0) {
      add("train.batch = {} cannot be split evenly into train.accumulate = {} microbatches; try batch {}, or "
          "accumulate {}",
          c_.train.batch, c_.train.accumulate, multiples_near(c_.train.accumulate, c_.train.batch),
          divisors_near(c_.train.batch, c_.train.accumulate));
    }

    if (c_.train.shards > 0 && !std::has_single_bit(static_cast<uint64_t>(c_.train.shards))) {
      add("train.shards = {} is no power of two, so there is no even tree to add shards up in; try {} or {}",
          c_.train.shards, std::bit_floor(static_cast<uint64_t>(c_.train.shards)),
          std::bit_ceil(static_cast<uint64_t>(c_.train.shards)));
    } else if (c_.train.shards > 0 && c_.train.batch % c_.train.shards != 0) {
      add("train.batch = {} cannot be split evenly into train.shards = {}; try batch {}", c_.train.batch,
          c_.train.shards, multiples_near(c_.train.shards, c_.train.batch));
    }
    if (c_.train.shards > 0 && c_.train.accumulate > 1) {
      add("train.accumulate = {} and train.shards = {} both say how a batch is cut; a rank goes through its "
          "shards one after another, so more shards save as much memory as more microbatches",
          c_.train.accumulate, c_.train.shards);
    }
  }

  void of_start_and_end() {
    if (!c_.train.init_fresh.empty() && c_.train.init_from.empty()) {
      add("train.init_fresh = {} says what is not taken from train.init_from, which is not set; all "
          "parameters start anew without it",
          join(c_.train.init_fresh, ", "));
    }

    if (c_.model.lora.rank == 0 && (c_.model.lora.alpha > 0 || !c_.model.lora.targets.empty())) {
      add("model.lora.alpha or model.lora.targets is set, but model.lora.rank is 0, which makes no adapters; "
          "try a rank of 8");
    }

    if (c_.train.patience > 0 && c_.train.eval_every == 0) {
      add("train.patience = {} counts evaluations, but train.eval_every = 0, so there is one at the end "
          "alone; set train.eval_every to the steps between evaluations",
          c_.train.patience);
    }
  }

  void of_precision() {
    if (c_.train.tf32 && (!c_.train.device.starts_with("cuda") || c_.train.precision != "f32")) {
      add("train.tf32 is about f32 products on a GPU, but train.device = {} and train.precision = {}",
          c_.train.device, c_.train.precision);
    }

    if (c_.train.weight_precision != "f32" && c_.train.weight_precision != c_.train.precision) {
      add("train.weight_precision = {} and train.precision = {}: weights are kept in f32, or in the 16 bits "
          "that they are used in",
          c_.train.weight_precision, c_.train.precision);
    }
    if (c_.train.gradient_precision != "f32" && c_.train.gradient_precision != c_.train.weight_precision) {
      add("train.gradient_precision = {} and train.weight_precision = {}: gradients are added up in f32, or "
          "in the 16 bits of the weights",
          c_.train.gradient_precision, c_.train.weight_precision);
    }
  }

  void of_learning_rate() {
    if (c_.lr_schedule.min_lr > c_.optim.lr && c_.lr_schedule.kind != "constant") {
      add("lr_schedule.min_lr = {} is above optim.lr = {}, so the rate would rise as it decays; lower min_lr",
          c_.lr_schedule.min_lr, c_.optim.lr);
    }
    const bool decays = is_any_of(c_.lr_schedule.kind, {"cosine", "linear"});
    const int64_t end = c_.lr_schedule.decay_steps > 0 ? c_.lr_schedule.decay_steps : c_.train.steps;
    if (decays && c_.lr_schedule.decay_steps > 0 &&
        c_.lr_schedule.decay_steps < c_.lr_schedule.warmup_steps) {
      add("lr_schedule.warmup_steps = {} ends after lr_schedule.decay_steps = {}; lower it, or give "
          "decay_steps more",
          c_.lr_schedule.warmup_steps, end);
    }
  }

  const Config& c_;
  const ModelRecord& model_;
  std::vector<std::string> problems_;
};

void throw_if_any(const std::vector<std::string>& problems) {
  if (!problems.empty()) throw Error("the settings do not fit together: " + join(problems, "\n  and "));
}

}  // namespace

std::vector<std::string> config_problems(const Config& config) {
  const std::vector<std::string> problems = field_problems(config, Family::kOfTheTable);
  return problems.empty() ? config_problems(config, find_model(config.model)) : problems;
}

std::vector<std::string> config_problems(const Config& config, const ModelRecord& model) {
  const std::vector<std::string> problems = field_problems(config, Family::kAny);
  // Rules divide by some of the fields.
  return problems.empty() ? RulesBetween(config, model).problems() : problems;
}

void use_batch_per_rank(Config& config, int64_t ranks) {
  if (config.train.batch_per_rank == 0) return;
  config.train.batch = config.train.batch_per_rank * ranks;
  if (config.optim.base_batch == 0) config.optim.base_batch = config.train.batch_per_rank;
}

void validate(const Config& config) {
  throw_if_any(config_problems(config));
}

void validate(const Config& config, const ModelRecord& model) {
  throw_if_any(config_problems(config, model));
}

}  // namespace trireme
