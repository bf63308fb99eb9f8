// `trireme inspect checkpoint`: what a checkpoint holds, and whether its files are what was written. Takes a
// checkpoint's folder, a run's folder (its newest checkpoint) or one safetensors file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/train/checkpoint/checkpoint.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

enum class Contents { kGood, kDamaged };

void print_file(const std::string& path) {
  const SafetensorsFile file(path);
  size_t name_width = 4, shape_width = 5;
  uint64_t elements = 0, bytes = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, to_string(tensor.shape).size());
    elements += static_cast<uint64_t>(tensor.shape.elements());
    bytes += tensor.bytes();
  }
  fmt::print("\n{}: {} tensors, {} elements, {}\n", fs::path(path).filename().string(), file.tensors().size(),
             elements, format_bytes(bytes));
  for (const auto& [key, value] : file.metadata()) fmt::print("  metadata {} = {}\n", key, value);
  for (const StoredTensor& tensor : file.tensors()) {
    fmt::print("  {:<{}}  {:<5} {:<{}} {:>10}\n", tensor.name, name_width, tensor.format,
               to_string(tensor.shape), shape_width, format_bytes(tensor.bytes()));
  }
}

std::string read_text(const std::string& path) {
  const FileReader file(path);
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

// "" when the file is what the checksum says.
std::string damage(const std::string& path, const FileDigest& expected) {
  if (!fs::exists(path)) return "is missing";
  const FileDigest found = digest_of(FileReader(path));
  if (found.bytes != expected.bytes)
    return fmt::format("has {} bytes, {} were written", found.bytes, expected.bytes);
  if (found.xxh64 != expected.xxh64) return "has other contents than were written";
  return "";
}

Contents print_checksums(const fs::path& folder) {
  const std::string path = folder / "checksums.json";
  Contents contents = Contents::kGood;
  for (const auto& [name, digest] : parse_checksums(read_text(path), path)) {
    const std::string problem = damage(folder / name, digest);
    fmt::print("  {:<24} {:>10}  {:016x}  {}\n", name, format_bytes(digest.bytes), digest.xxh64,
               problem.empty() ? "ok" : "DAMAGED: " + problem);
    if (!problem.empty()) contents = Contents::kDamaged;
  }
  return contents;
}

int print_folder(const fs::path& folder) {
  fmt::print("{}\n", folder.string());
  const Contents contents = print_checksums(folder);
  if (contents == Contents::kDamaged) {
    fmt::print("damaged: a run passes this checkpoint over and goes on from the one before it\n");
    return kFailed;
  }
  const std::string state_path = folder / "state.json";
  const TrainState state = parse_state(read_text(state_path), state_path);
  fmt::print("\nstep {}, seed {}, data at epoch {} sample {}, loss scale {}\n", state.step, state.seed,
             state.data.epoch, state.data.index, state.loss_scale);
  if (state.extra != "{}") fmt::print("  {}\n", state.extra);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) print_file(folder / name);
  return kOk;
}

}  // namespace

int inspect_checkpoint(std::span<const std::string> arguments) {
  std::string path;
  CLI::App app("Shows the tensors of a checkpoint and compares its files with their checksums.",
               "trireme inspect checkpoint");
  app.add_option("path", path, "a checkpoint, a run's folder (its newest checkpoint), or a safetensors file")
      ->required();
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  if (!fs::exists(path)) throw_error("{}: there is no such file or folder", path);
  if (!fs::is_directory(path)) {
    print_file(path);
    return kOk;
  }
  if (fs::exists(fs::path(path) / "checksums.json")) return print_folder(path);
  const Checkpoints checkpoints(path, 1);
  const std::vector<int64_t> steps = checkpoints.steps();
  if (steps.empty())
    throw_error("{}: no checkpoint here; expected checksums.json, or a folder checkpoints/ of a run", path);
  return print_folder(fs::path(checkpoints.path()) / checkpoint_name(steps.back()));
}

}  // namespace trireme::cli
