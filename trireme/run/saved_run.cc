// Settings and weights of a run's folder, put together.
#include "trireme/run/saved_run.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/optim/update.h"
#include "trireme/run/config.h"
#include "trireme/run/held_out_record.h"
#include "trireme/run/weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

LoadedCheckpoint open_chosen(const Checkpoints& checkpoints, const CheckpointChoice& choice,
                             const CheckpointPeers& peers) {
  using Which = CheckpointChoice::Which;
  const std::vector<int64_t> steps = checkpoints.steps();
  if (steps.empty()) throw_error("{} holds no checkpoint yet", checkpoints.path());
  int64_t step = choice.step;
  if (choice.which != Which::kOfStep) {
    LoadedCheckpoint newest = *checkpoints.load_latest();
    if (choice.which == Which::kNewest) return newest;
    const auto best = best_checkpoint(newest.state.extra, newest.path);
    if (!best)
      throw_error(
          "{} holds no best checkpoint: none was evaluated on held-out data with run.keep_best=true; leave "
          "the choice out for the newest",
          checkpoints.path());
    step = best->step;
  }
  if (std::ranges::find(steps, step) == steps.end()) {
    std::vector<std::string> there;
    for (const int64_t one : steps) there.push_back(std::to_string(one));
    throw_error("{} holds no checkpoint of step {}{}; there are those of {}", checkpoints.path(), step,
                choice.which == Which::kBest ? ", which was the best" : "", join(there, ", "));
  }
  return open_checkpoint(fs::path(checkpoints.path()) / checkpoint_name(step), peers);
}

}  // namespace

CheckpointChoice CheckpointChoice::parse(const std::string& text) {
  if (text == "best") return best();
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || end != text.data() + text.size() || step < 0)
    throw_error("'{}' names no checkpoint; expected the number of a step, or best", text);
  return of_step(step);
}

SavedRun open_saved_run(const std::string& folder, const CheckpointChoice& choice,
                        const CheckpointPeers& peers, const ModelRecord* own) {
  const fs::path config_path = fs::path(folder) / "config.toml";
  if (!fs::exists(config_path)) throw_error("{} is no run folder: there is no config.toml in it", folder);
  const Config config = resolve_config({.file = read_config_file(config_path.string())}, own).config;
  LoadedCheckpoint checkpoint = open_chosen(Checkpoints(folder, 1, peers), choice, peers);
  const bool is_own = own && own->family == config.model.family;
  Model model = is_own ? Model(*own, config.model) : Model(config.model);
  if (fs::weakly_canonical(config.train.init_from) == fs::weakly_canonical(folder))
    throw_error("{}: its weights are said to come from itself (train.init_from)", config_path.string());
  add_starting_weights(checkpoint.model, config, model, peers);
  const TensorFiles::Tensor* table = checkpoint.model.find(model.record.embedding);
  if (table && table->shape.rank() == 2) model.options.vocab = table->shape[0];
  return {config, std::move(model), std::move(checkpoint)};
}

void add_starting_weights(TensorFiles& own, const Config& config, const Model& model,
                          const CheckpointPeers& peers) {
  if (model.options.lora.rank > 0 && !config.train.init_from.empty())
    add_base_weights(own, config.train.init_from, model, peers);
}

void take_averages(LoadedCheckpoint& checkpoint) {
  TensorFiles averages = std::move(checkpoint.optimizer);
  averages.rename([](const std::string& name) {
    return name.starts_with(kAverage) ? std::optional(name.substr(kAverage.size())) : std::nullopt;
  });
  if (averages.tensors().empty())
    throw_error("{}: no averages of weights are kept here; they are of runs with train.ema", checkpoint.path);
  averages.add_base(std::move(checkpoint.model), [](const std::string& name) { return std::optional(name); });
  checkpoint.model = std::move(averages);
}

}  // namespace trireme
