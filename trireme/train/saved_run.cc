// Settings and weights of a run's folder, put together.
#include "trireme/train/saved_run.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/train/config.h"
#include "trireme/train/weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

LoadedCheckpoint open_step(const Checkpoints& checkpoints, std::optional<int64_t> step,
                           const CheckpointPeers& peers) {
  const std::vector<int64_t> steps = checkpoints.steps();
  if (steps.empty()) throw_error("{} holds no checkpoint yet", checkpoints.path());
  if (!step) return *checkpoints.load_latest();
  if (std::ranges::find(steps, *step) == steps.end()) {
    std::vector<std::string> there;
    for (const int64_t one : steps) there.push_back(std::to_string(one));
    throw_error("{} holds no checkpoint of step {}; there are those of {}", checkpoints.path(), *step,
                join(there, ", "));
  }
  return open_checkpoint(fs::path(checkpoints.path()) / checkpoint_name(*step), peers);
}

}  // namespace

SavedRun open_saved_run(const std::string& folder, std::optional<int64_t> step, const CheckpointPeers& peers,
                        const ModelRecord* own) {
  const fs::path config_path = fs::path(folder) / "config.toml";
  if (!fs::exists(config_path)) throw_error("{} is no run folder: there is no config.toml in it", folder);
  const Config config = resolve_config({.file = read_config_file(config_path.string())}, own).config;
  LoadedCheckpoint checkpoint = open_step(Checkpoints(folder, 1, peers), step, peers);
  const bool is_own = own && own->family == config.model.family;
  Model model = is_own ? Model(*own, config.model) : Model(config.model);
  if (model.options.lora.rank > 0 && !config.train.init_from.empty()) {
    if (fs::weakly_canonical(config.train.init_from) == fs::weakly_canonical(folder))
      throw_error("{}: its weights are said to come from itself (train.init_from)", config_path.string());
    add_base_weights(checkpoint.model, config.train.init_from, model, peers);
  }
  const TensorFiles::Tensor* table = checkpoint.model.find(model.record.embedding);
  if (table && table->shape.rank() == 2) model.options.vocab = table->shape[0];
  return {config, std::move(model), std::move(checkpoint)};
}

}  // namespace trireme
