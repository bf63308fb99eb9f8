// Writing, finding and verifying checkpoints; see checkpoint.h for what is promised. Names that begin with
// a point are on their way in or out, and no reader looks at them.
#include "trireme/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kChecksums = "checksums.json";
constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kIncoming = ".incoming-";
constexpr const char* kOutgoing = ".outgoing-";

FileDigest write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

std::string read_text(const FileReader& file) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  if (file.bytes() > kMaxBytes)
    throw_error("{}: {}, expected a small file", file.path(), format_bytes(file.bytes()));
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

// Takes the name away at once and the contents at leisure, so that no folder under a checkpoint's name is
// ever partly removed. Failing to remove costs room, not correctness.
void discard(const fs::path& path) {
  const fs::path outgoing = path.parent_path() / (kOutgoing + path.filename().string());
  std::error_code ignored;
  fs::remove_all(outgoing, ignored);
  fs::rename(path, outgoing, ignored);
  fs::remove_all(outgoing, ignored);
}

void verify(const std::string& path, const FileDigest& expected) {
  const FileDigest found = digest_of(FileReader(path));
  if (found.bytes != expected.bytes) {
    throw_error("{}: {} bytes, expected {}", path, found.bytes, expected.bytes);
  }
  if (found.xxh64 != expected.xxh64) {
    throw_error("{}: its checksum is {:016x}, expected {:016x}", path, found.xxh64, expected.xxh64);
  }
}

std::string free_space(const fs::path& path) {
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  return error ? "an unknown amount" : format_bytes(space.available);
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::optional<int64_t> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  // Compared with what we would write, which settles digits, leading zeros, signs and overflow at once.
  return step >= 0 && checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

Checkpoints::Checkpoints(const std::string& run_dir, int64_t keep)
    : path_(fs::path(run_dir) / "checkpoints"), keep_(keep) {
  TRIREME_CHECK(keep >= 1);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> steps;
  try {
    if (!fs::exists(path_)) return steps;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const auto step = parse_checkpoint_name(entry.path().filename().string());
      if (step && entry.is_directory()) steps.push_back(*step);
    }
  } catch (const fs::filesystem_error& error) {
    throw_error("{}: cannot list the checkpoints: {}", path_, error.code().message());
  }
  std::ranges::sort(steps);
  return steps;
}

std::string Checkpoints::save(const TrainState& state, std::span<const NamedTensor> model,
                              std::span<const NamedTensor> optimizer) const {
  const std::string name = checkpoint_name(state.step);
  const fs::path folder(path_), incoming = folder / (kIncoming + name), final = folder / name;
  const std::string state_text = render_state(state);
  const uint64_t needed = safetensors_bytes(model) + safetensors_bytes(optimizer) + state_text.size();
  try {
    fs::create_directories(folder);
    fs::remove_all(incoming);  // left by a writer that was killed
    fs::create_directory(incoming);
    Checksums checksums;
    checksums[kModel] = write_safetensors(incoming / kModel, model);
    checksums[kOptimizer] = write_safetensors(incoming / kOptimizer, optimizer);
    checksums[kState] = write_text(incoming / kState, state_text);
    write_text(incoming / kChecksums, render_checksums(checksums));
    sync_directory(incoming);
    if (fs::exists(final)) discard(final);
    fs::rename(incoming, final);
    sync_directory(folder);
  } catch (const std::exception& error) {
    const std::string room = free_space(folder);
    std::error_code ignored;
    fs::remove_all(incoming, ignored);
    std::vector<int64_t> left;
    try {
      left = steps();
    } catch (const Error&) {  // the folder itself cannot be read; the first error says more
    }
    throw_error("checkpoint {} was not written: {}. It needs {} ({} bytes); {} were free. {}", final.string(),
                error.what(), format_bytes(needed), needed, room,
                left.empty()
                    ? std::string("There is no earlier checkpoint")
                    : fmt::format("The previous checkpoint, {}, is intact", checkpoint_name(left.back())));
  }
  // Newer ones than this belong to a run that went further before it fell back; they do not count, or a
  // damaged one could push out the one just written.
  std::vector<int64_t> older = steps();
  std::erase_if(older, [&](int64_t step) { return step > state.step; });
  for (size_t i = 0; i + static_cast<size_t>(keep_) < older.size(); ++i)
    discard(folder / checkpoint_name(older[i]));
  return final;
}

LoadedCheckpoint open_checkpoint(const std::string& path) {
  const fs::path folder(path);
  const FileReader checksums_file(folder / kChecksums);
  const Checksums checksums = parse_checksums(read_text(checksums_file), checksums_file.path());
  for (const char* name : {kModel, kOptimizer, kState}) {
    const auto expected = checksums.find(name);
    if (expected == checksums.end()) throw_error("{}: no checksum of {}", checksums_file.path(), name);
    verify(folder / name, expected->second);
  }
  const FileReader state_file(folder / kState);
  return {.path = path,
          .state = parse_state(read_text(state_file), state_file.path()),
          .model = SafetensorsFile(folder / kModel),
          .optimizer = SafetensorsFile(folder / kOptimizer),
          .messages = {}};
}

std::optional<LoadedCheckpoint> Checkpoints::load_latest() const {
  std::vector<int64_t> candidates = steps();
  if (candidates.empty()) return std::nullopt;
  std::vector<std::string> messages;
  for (; !candidates.empty(); candidates.pop_back()) {
    const std::string name = checkpoint_name(candidates.back());
    try {
      LoadedCheckpoint loaded = open_checkpoint(fs::path(path_) / name);
      for (std::string& message : messages) message += fmt::format("; continuing from {}", name);
      loaded.messages = std::move(messages);
      return loaded;
    } catch (const Error& error) {
      messages.push_back(fmt::format("checkpoint {} is damaged: {}", name, error.what()));
    }
  }
  throw_error("no checkpoint in {} can be used: {}. Move them away to start anew", path_,
              join(messages, "; "));
}

}  // namespace trireme
