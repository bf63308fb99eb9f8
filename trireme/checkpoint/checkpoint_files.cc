// Names and contents of the files. Writers tell the first one what they wrote by notes in the folder, which
// are gone before the folder counts.
#include "trireme/checkpoint/checkpoint_files.h"

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/tensor_index.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "state.json";
constexpr const char* kChecksums = "checksums.json";
constexpr const char* kKinds[] = {"model", "optimizer"};

std::string file_name(const char* kind, int index, int count) {
  return count == 1 ? fmt::format("{}.safetensors", kind)
                    : fmt::format("{}-{:05}-of-{:05}.safetensors", kind, index + 1, count);
}
std::string index_name(const char* kind) {
  return fmt::format("{}.safetensors.index.json", kind);
}
std::string note_name(const char* about, int index) {
  return fmt::format("note-{}-{}.json", about, index);
}

std::span<const PartView> parts_of(const CheckpointShare& share, const char* kind) {
  return kind == kKinds[0] ? share.model : share.optimizer;
}

std::vector<NamedTensor> tensors_of(std::span<const PartView> parts) {
  std::vector<NamedTensor> tensors;
  for (const PartView& part : parts) tensors.push_back({part.name, part.view, part.reach});
  return tensors;
}

TensorIndex index_of(std::span<const PartView> parts, const std::string& file) {
  TensorIndex index;
  for (const auto& [name, view, part, reach] : parts) {
    if (part.is_whole())
      index.files[name] = file;
    else
      index.parts[name] = {{file, part}};
    index.total_bytes += view.bytes();
  }
  return index;
}

FileDigest write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

// Reads a note and removes it.
std::string take_note(const fs::path& path) {
  std::string text = read_text(path);
  fs::remove(path);
  return text;
}

}  // namespace

std::string read_text(const std::string& path) {
  constexpr uint64_t kMaxBytes = 64 << 20;
  const FileReader file(path);
  if (file.bytes() > kMaxBytes)
    throw_error("{}: {}, expected a small file", path, format_bytes(file.bytes()));
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

void write_share(const std::string& path, const CheckpointShare& share) {
  const fs::path folder(path);
  Checksums checksums;
  for (const char* kind : kKinds) {
    const std::string name = file_name(kind, share.index, share.count);
    const std::span<const PartView> parts = parts_of(share, kind);
    checksums[name] = write_safetensors(folder / name, tensors_of(parts));
    if (share.count > 1)
      write_text(folder / note_name(kind, share.index), render_index(index_of(parts, name)));
  }
  write_text(folder / note_name("checksums", share.index), render_checksums(checksums));
}

void join_shares(const std::string& path, int count, const std::string& state) {
  const fs::path folder(path);
  Checksums checksums;
  for (int i = 0; i < count; ++i) {
    const fs::path note = folder / note_name("checksums", i);
    checksums.merge(parse_checksums(take_note(note), note.string()));
  }
  for (const char* kind : kKinds) {
    if (count == 1) break;
    TensorIndex index;
    for (int i = 0; i < count; ++i) {
      const fs::path note = folder / note_name(kind, i);
      index.add(parse_index(take_note(note), note.string()));
    }
    const std::string name = index_name(kind);
    check_complete(index, name);
    checksums[name] = write_text(folder / name, render_index(index));
  }
  checksums[kState] = write_text(folder / kState, state);
  write_text(folder / kChecksums, render_checksums(checksums));
}

CheckpointFiles::CheckpointFiles(const std::string& path) {
  const fs::path folder(path);
  const std::string sums = folder / kChecksums;
  checksums = parse_checksums(read_text(sums), sums);
  for (const auto& [name, digest] : checksums) {
    if (fs::path(name).filename() != name) throw_error("{}: '{}' is no file of this folder", sums, name);
  }
  const auto listed = [&](const std::string& name) {
    if (!checksums.contains(name)) throw_error("{}: no checksum of {}", sums, name);
    return (folder / name).string();
  };
  const auto tensors = [&](const char* kind) {
    const std::string index = index_name(kind);
    return listed(checksums.contains(index) ? index : file_name(kind, 0, 1));
  };
  model = tensors(kKinds[0]);
  optimizer = tensors(kKinds[1]);
  state = listed(kState);
}

}  // namespace trireme
