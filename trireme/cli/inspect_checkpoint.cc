// `trireme inspect checkpoint`: what a checkpoint holds, and whether its files are what was written. Takes a
// checkpoint's folder, a run's folder (its newest checkpoint), one safetensors file or the index of several.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/checkpoint_files.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

enum class Contents { kGood, kDamaged };

// A name from a file that anybody may have written, as one line that cannot move the cursor.
std::string one_line(std::string_view name) {
  std::string text = printable(name);
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

void print_file(const std::string& path) {
  const TensorFiles files(path);
  size_t name_width = 4, shape_width = 5;
  uint64_t elements = 0, bytes = 0;
  for (const TensorFiles::Tensor& tensor : files.tensors()) {
    name_width = std::max(name_width, one_line(tensor.name).size());
    shape_width = std::max(shape_width, to_string(tensor.shape).size());
    elements += static_cast<uint64_t>(tensor.shape.elements());
    bytes += tensor.bytes();
  }
  const size_t count = files.files().size();
  fmt::print("\n{}: {} tensors, {} elements, {}{}\n", fs::path(path).filename().string(),
             files.tensors().size(), elements, format_bytes(bytes),
             count > 1 ? fmt::format(", in {} files", count) : "");
  for (const SafetensorsFile& file : files.files()) {
    for (const auto& [key, value] : file.metadata())
      fmt::print("  metadata {} = {}\n", one_line(key), one_line(value));
  }
  for (const TensorFiles::Tensor& tensor : files.tensors()) {
    const size_t parts = tensor.sources.size();
    fmt::print("  {:<{}}  {:<5} {:<{}} {:>10}{}\n", one_line(tensor.name), name_width,
               one_line(tensor.format), to_string(tensor.shape), shape_width, format_bytes(tensor.bytes()),
               parts > 1 ? fmt::format("  in {} parts", parts) : "");
  }
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

Contents print_checksums(const fs::path& folder, const Checksums& checksums) {
  Contents contents = Contents::kGood;
  for (const auto& [name, digest] : checksums) {
    const std::string problem = damage(folder / name, digest);
    fmt::print("  {:<40} {:>10}  {:016x}  {}\n", one_line(name), format_bytes(digest.bytes), digest.xxh64,
               problem.empty() ? "ok" : "DAMAGED: " + problem);
    if (!problem.empty()) contents = Contents::kDamaged;
  }
  return contents;
}

int print_folder(const fs::path& folder) {
  fmt::print("{}\n", folder.string());
  const CheckpointFiles files(folder);
  const Contents contents = print_checksums(folder, files.checksums);
  if (contents == Contents::kDamaged) {
    fmt::print("damaged: a run skips this checkpoint and resumes from the one before it\n");
    return kFailed;
  }
  const TrainState state = parse_state(read_text(files.state), files.state);
  fmt::print("\nstep {}, seed {}, data at epoch {} sample {}, loss scale {}\n", state.step, state.seed,
             state.data.epoch, state.data.index, state.loss_scale);
  if (state.extra != "{}") fmt::print("  {}\n", one_line(state.extra));
  for (const std::string& path : {files.model, files.optimizer}) print_file(path);
  return kOk;
}

}  // namespace

int inspect_checkpoint(std::span<const std::string> arguments) {
  std::string path;
  CLI::App app("Shows the tensors of a checkpoint and compares its files with their checksums.",
               "trireme inspect checkpoint");
  app.add_option("path", path,
                 "a checkpoint, a run's folder (its newest checkpoint), a safetensors file or index")
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
