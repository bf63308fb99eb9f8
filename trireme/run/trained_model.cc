// See trained_model.h. What a Hugging Face folder says of its model is put into the form of settings, so that
// both sources are resolved and checked the same way.
#include "trireme/run/trained_model.h"

#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint_files.h"
#include "trireme/models/hugging_face.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/weights.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Tokens of a window where the model has no table of positions to decide it: what a prompt is read with.
constexpr int64_t kUsualWindow = 1024;

// What comes from the model's folder may be decided otherwise by a plan; what was given may not.
ResolvedConfig resolve(ConfigFile file, std::span<const std::string> settings) {
  ResolvedConfig config = resolve_config(
      {.file = std::move(file), .environment = {}, .command_line = {settings.begin(), settings.end()}});
  for (auto& [name, origin] : config.origins) {
    if (origin != "command line") origin = "default";
  }
  return config;
}

TrainedModel open_run(const std::string& folder, const WeightsChoice& choice,
                      std::span<const std::string> settings) {
  SavedRun saved = open_saved_run(folder, choice.checkpoint);
  ResolvedConfig config = resolve(read_config_file((fs::path(folder) / "config.toml").string()), settings);
  // What was automatic came from the training data, and is part of the weights now.
  for (const Field& field : config_fields(config.config)) {
    const auto found = saved.checkpoint.state.made_with.find(field.name);
    const bool from_data = field.name == "model.vocab" || field.name == "model.classes";
    if (from_data && found != saved.checkpoint.state.made_with.end() && *std::get<int64_t*>(field.value) == 0)
      assign_text(field, found->second, saved.checkpoint.path);
  }
  if (config.config.model.vocab == 0) config.config.model.vocab = saved.model.options.vocab;
  Model model(config.config.model);
  TrainedModel trained{std::move(config), std::move(model), folder, saved.checkpoint.path,
                       saved.checkpoint.messages};
  if (choice.used == UsedWeights::kAverages) {
    take_averages(saved.checkpoint);
    trained.averages = std::make_shared<const TensorFiles>(std::move(saved.checkpoint.model));
  }
  return trained;
}

TrainedModel open_hugging_face(const std::string& folder, std::span<const std::string> settings) {
  const std::string where = fs::path(folder) / "config.json";
  const StatedModel stated = parse_hugging_face_config(read_text(where), where);
  Config filled;
  filled.model = stated.model;
  if (std::ranges::find(stated.keys, "model.seq", &StatedModel::Key::setting) == stated.keys.end())
    filled.model.seq = std::min(stated.positions, kUsualWindow);
  ResolvedConfig config = resolve({where, config_toml(filled)}, settings);
  if (config.is_default("data.tokenizer")) {
    for (const char* name : {"tokenizer.json", "encoder.json"}) {
      if (!fs::exists(fs::path(folder) / name)) continue;
      config.config.data.tokenizer = fs::absolute(folder).lexically_normal().string();
      break;
    }
  }
  Model model(config.config.model);
  return {std::move(config), std::move(model), "", folder, {}};
}

}  // namespace

TrainedModel open_trained_model(const std::string& path, const WeightsChoice& choice,
                                std::span<const std::string> settings) {
  if (!fs::is_directory(path))
    throw_error("{}: {}; expected a run's folder or a Hugging Face folder", path,
                fs::exists(path) ? "this is a file" : "there is no such folder");
  if (fs::exists(fs::path(path) / "config.toml")) return open_run(path, choice, settings);
  if (!fs::exists(fs::path(path) / "config.json"))
    throw_error("{} is neither a run's folder (config.toml) nor a Hugging Face folder (config.json)", path);
  if (choice.checkpoint.which != CheckpointChoice::Which::kNewest || choice.used != UsedWeights::kTrained)
    throw_error("{} is a Hugging Face folder, which has no checkpoints or averages to choose from", path);
  return open_hugging_face(path, settings);
}

void read_trained_weights(const TrainedModel& trained, const Model& model, std::span<const PartView> parts,
                          const CheckpointPeers& peers) {
  read_weights(trained.weights, model, parts, peers);  // compares the settings too
  if (!trained.averages) return;
  std::string problem;
  try {
    trained.averages->read_all(parts);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!peers.agree(problem.empty()))
    throw_error("{}", problem.empty() ? "another rank could not read its averages, and says why" : problem);
}

void require_tokenizer(const TrainedModel& model) {
  constexpr int64_t kBytes = 256;
  const Config& config = model.config.config;
  if (!model.run.empty() || !model.config.is_default("data.tokenizer") || config.data.tokenizer != "bytes" ||
      config.model.vocab == kBytes)
    return;
  throw_error(
      "{} has no tokenizer.json, and its model has a vocabulary of {}; give its tokenizer with "
      "--data.tokenizer",
      model.weights, config.model.vocab);
}

}  // namespace trireme
