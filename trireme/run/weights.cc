// Finds out what a folder is, compares what it says of its model with the settings, then its tensors with
// those of the model, and only then reads.
#include "trireme/run/weights.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint_files.h"
#include "trireme/models/hugging_face.h"
#include "trireme/optim/parameter_patterns.h"
#include "trireme/run/config_fields.h"
#include "trireme/run/saved_run.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string description;
  TensorFiles files;
  // The name that a tensor of the files has with us; nothing for one that is skipped.
  std::function<std::optional<std::string>(const std::string&)> our_name;
};

std::optional<std::string> same_name(const std::string& name) {
  return name;
}

// The values of a model's settings, as text, by name.
std::map<std::string, std::string> values_of(const Model& model) {
  Config config;
  config.model = model.record.with_automatic_sizes(model.options);
  std::map<std::string, std::string> values;
  for (const Field& field : config_fields(config)) {
    if (field.section() == "model") values[field.name] = value_text(field);
  }
  return values;
}

using Keys = std::vector<StatedModel::Key>;

// Throws unless all settings of `keys` are the same. The way out is in the message, ready to be given.
void expect_same(const Model& model, const Model& source, const Keys& keys, const std::string& where) {
  const std::map<std::string, std::string> ours = values_of(model), theirs = values_of(source);
  std::vector<std::string> differences, settings;
  std::string fresh;
  for (const auto& [setting, key] : keys) {
    const std::string &found = theirs.at(setting), &wanted = ours.at(setting);
    settings.push_back(fmt::format("--{}={}", setting, found));
    if (found == wanted) continue;
    differences.push_back(fmt::format("{} = {}, but {} = {}", key, found, setting, wanted));
    if (setting == "model.vocab" && !model.record.embedding.empty())
      fresh = fmt::format(". To begin the table of another vocabulary anew: --train.init_fresh={}",
                          model.record.embedding);
  }
  if (differences.empty()) return;
  throw_error("{}: {}. Settings that fit these weights: {}{}", where, join(differences, "; "),
              join(settings, " "), fresh);
}

// Files that a Hugging Face folder has its weights in.
std::string weight_files(const fs::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (fs::exists(folder / name)) {
      throw_error(
          "{}: weights as pickle ({}), which is never read because it can run any program; save them as "
          "safetensors (save_pretrained with safe_serialization)",
          folder.string(), name);
    }
  }
  throw_error("{}: no weights found; expected model.safetensors or model.safetensors.index.json",
              folder.string());
}

using Patterns = std::span<const std::string>;

// The vocabulary decides shapes alone, and those are compared tensor by tensor.
enum class Vocabulary { kCompared, kAny };

Source open_hugging_face(const fs::path& folder, const Model& model, Vocabulary vocabulary) {
  const std::string where = folder / "config.json";
  StatedModel stated = parse_hugging_face_config(read_text(where), where);
  if (vocabulary == Vocabulary::kAny)
    std::erase_if(stated.keys, [](const auto& key) { return key.setting == "model.vocab"; });
  expect_same(model, stated.model, stated.keys, where);
  if (stated.positions > 0 && model.options.seq > stated.positions) {
    throw_error("{}: its model has {} positions, but model.seq = {}; at most {} can be used", where,
                stated.positions, model.options.seq, stated.positions);
  }
  return {folder.string(), TensorFiles(weight_files(folder)),
          [model = model.options](const std::string& name) { return name_from_hugging_face(model, name); }};
}

Source open_run(const fs::path& folder, const CheckpointChoice& choice, const Model& model,
                const CheckpointPeers& peers) {
  SavedRun run = open_saved_run(folder, choice, peers, &model.record);
  Keys keys = {{"model.family", "model.family"}};
  for (const std::string& name : run.model.record.weight_settings) keys.push_back({name, name});
  expect_same(model, run.model, keys, folder / "config.toml");
  for (std::string& message : run.checkpoint.messages) message += "\n";
  return {join(run.checkpoint.messages, "") + run.checkpoint.path, std::move(run.checkpoint.model),
          same_name};
}

Source open_source(const std::string& path, const Model& model, const CheckpointPeers& peers,
                   Vocabulary vocabulary) {
  const fs::path folder = fs::path(path).lexically_normal().has_filename()
                              ? fs::path(path).lexically_normal()
                              : fs::path(path).lexically_normal().parent_path();
  if (!fs::is_directory(folder)) {
    throw_error(
        "train.init_from = {}: {}", path,
        fs::exists(folder) ? "this is a file; give the folder that it is in" : "there is no such folder");
  }
  if (fs::is_directory(folder / "checkpoints")) return open_run(folder, {}, model, peers);
  if (fs::exists(folder / "checksums.json")) {
    const fs::path run = folder.parent_path().parent_path();
    const std::optional<int64_t> step = parse_checkpoint_name(folder.filename().string());
    if (step && folder.parent_path().filename() == "checkpoints" && fs::exists(run / "config.toml"))
      return open_run(run, CheckpointChoice::of_step(*step), model, peers);
    return {path + ", without the settings of its run, so that only names and shapes were compared",
            std::move(open_checkpoint(folder, peers).model), same_name};
  }
  if (fs::exists(folder / "config.json")) return open_hugging_face(folder, model, vocabulary);
  throw_error(
      "train.init_from = {}: neither a run's folder (checkpoints/), nor a checkpoint's (checksums.json), nor "
      "one of Hugging Face's (config.json and model.safetensors)",
      path);
}

// At most a few of the names: another model differs in hundreds.
void add_names(std::vector<std::string>& problems, std::string_view what,
               const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  if (names.empty()) return;
  const std::string text = join(std::span(names).first(std::min(names.size(), kShown)), ", ");
  problems.push_back(
      fmt::format("{} {}{}", what, text,
                  names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : ""));
}

struct Reads {
  std::vector<std::pair<const TensorFiles::Tensor*, const PartView*>> reads;
  std::set<std::string> fresh;  // of the model, that are not read
};

// A setting that passes over the tensors that keep weights from being read; "" where they are too many.
std::string way_out(const std::set<std::string>& tensors) {
  std::set<std::string> names;
  for (const std::string& name : tensors) names.insert(is_adapter_name(name) ? "*.lora_*" : name);
  constexpr size_t kMost = 8;
  if (names.empty() || names.size() > kMost) return "";
  return fmt::format(
      ". To start from the other tensors and leave these out or begin them anew: "
      "--train.init_fresh={}",
      join(std::vector(names.begin(), names.end()), ","));
}

Reads match(const Source& source, std::span<const PartView> parts, Patterns fresh) {
  std::map<std::string, const TensorFiles::Tensor*> stored;
  std::vector<std::string> missing, surplus, other, known;
  std::set<std::string> unfit;
  for (const TensorFiles::Tensor& tensor : source.files.tensors()) {
    const std::optional<std::string> name = source.our_name(tensor.name);
    if (!name) continue;
    known.push_back(*name);
    if (!stored.emplace(*name, &tensor).second)
      throw_error("{}: '{}' and '{}' are the same tensor of the model; one is expected", source.files.path(),
                  stored.at(*name)->name, tensor.name);
  }
  for (const PartView& part : parts) known.push_back(part.name);
  check_patterns("train.init_fresh", fresh, known);
  std::erase_if(stored, [&](const auto& entry) { return fits_any(fresh, entry.first); });
  Reads result;
  for (const PartView& part : parts) {
    if (fits_any(fresh, part.name)) {
      result.fresh.insert(part.name);
      continue;
    }
    const auto found = stored.find(part.name);
    if (found == stored.end() && is_adapter_name(part.name)) {  // weights without adapters get some
      result.fresh.insert(part.name);
      continue;
    }
    if (found == stored.end()) {
      if (unfit.insert(part.name).second)
        missing.push_back(fmt::format("'{}' {}", part.name, to_string(part.part.whole)));
      continue;
    }
    const TensorFiles::Tensor& tensor = *found->second;
    if (tensor.shape != part.part.whole) {
      if (unfit.insert(part.name).second)
        other.push_back(fmt::format("'{}' is {}, expected {}", tensor.name, to_string(tensor.shape),
                                    to_string(part.part.whole)));
    } else if (!TensorFiles::widens(tensor)) {
      other.push_back(fmt::format("'{}' is {}, expected F32, BF16 or F16", tensor.name, tensor.format));
    }
    result.reads.emplace_back(&tensor, &part);
  }
  for (const PartView& part : parts) stored.erase(part.name);
  if (std::ranges::none_of(parts, is_adapter_name, &PartView::name) &&
      std::ranges::any_of(stored, [](const auto& entry) { return is_adapter_name(entry.first); }))
    throw_error(
        "{}: these weights have adapters, and model.lora.rank is 0. `trireme export` merges them into a "
        "folder to start from; or set model.lora as in the run that made them",
        source.files.path());
  for (const auto& [name, tensor] : stored) {
    surplus.push_back(fmt::format("'{}' {}", tensor->name, to_string(tensor->shape)));
    unfit.insert(name);
  }
  std::vector<std::string> problems;
  add_names(problems, "missing:", missing);
  add_names(problems, "not of this model:", surplus);
  add_names(problems, "other than expected:", other);
  if (!problems.empty())
    throw_error("{}: its tensors are not those of this model; {}{}", source.files.path(),
                join(problems, "; "), way_out(unfit));
  return result;
}

}  // namespace

std::string read_weights(const std::string& path, const Model& model, std::span<const PartView> parts,
                         const CheckpointPeers& peers, Patterns fresh) {
  // Every rank sees the same files, so that all refuse them alike; only the reading can fail on one alone.
  const Source source =
      open_source(path, model, peers, fresh.empty() ? Vocabulary::kCompared : Vocabulary::kAny);
  const Reads matched = match(source, parts, fresh);
  std::string problem;
  try {
    for (const auto& [tensor, part] : matched.reads) source.files.read(*tensor, *part);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!peers.agree(problem.empty()))
    throw_error("{}",
                problem.empty() ? path + ": another rank could not read its part, and says why" : problem);
  std::vector<std::string> anew;
  std::ranges::copy_if(matched.fresh, std::back_inserter(anew),
                       [](const std::string& name) { return !is_adapter_name(name); });
  if (const size_t adapters = matched.fresh.size() - anew.size(); adapters > 0)
    anew.push_back(fmt::format("{} tensors of adapters", adapters));
  if (anew.empty()) return source.description;
  return fmt::format("{}; initialised anew: {}", source.description, join(anew, ", "));
}

void add_base_weights(TensorFiles& own, const std::string& path, const Model& model,
                      const CheckpointPeers& peers) {
  Source source = open_source(path, model, peers, Vocabulary::kAny);
  own.add_base(std::move(source.files), source.our_name);
}

std::string pinned_weights(const std::string& path) {
  if (path.empty()) return path;
  const fs::path folder = fs::absolute(path).lexically_normal();
  if (!fs::is_directory(folder / "checkpoints")) return folder.string();
  const std::vector<int64_t> steps = Checkpoints(folder.string(), 1).steps();
  return steps.empty() ? folder.string() : (folder / "checkpoints" / checkpoint_name(steps.back())).string();
}

}  // namespace trireme
