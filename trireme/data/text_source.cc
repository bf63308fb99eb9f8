// Finding and tokenizing text; see text_source.h.
#include "trireme/data/text_source.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/data/file.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  if (extensions.empty()) return true;
  const std::string own = path.extension().string();
  return std::ranges::any_of(extensions, [&](const std::string& wanted) {
    return own == wanted || (!own.empty() && std::string_view(own).substr(1) == wanted);
  });
}

// What a run leaves (run/run_folder.h), which grows while it goes on: no text for a run to learn from, its
// own least of all.
bool is_run_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "metrics.jsonl", ignored) && fs::exists(path / "config.toml", ignored);
}

struct Search {
  const TextOptions& options;
  std::vector<fs::path> found;
  int binary = 0, other = 0;  // skipped, for the error message

  void folder(const fs::path& path) {
    for (const fs::path& entry : sorted_entries(path)) {
      std::error_code ignored;
      const fs::file_status link = fs::symlink_status(entry, ignored);
      if (fs::is_directory(link)) {
        const bool skipped =
            std::ranges::find(options.skip_folders, entry.filename().string()) != options.skip_folders.end();
        if (!skipped && !is_run_folder(entry)) folder(entry);
      } else if (fs::is_regular_file(entry, ignored)) {
        if (!has_extension(entry, options.extensions)) {
          ++other;
        } else if (!looks_like_text(entry)) {
          ++binary;
        } else {
          found.push_back(entry);
        }
      }
    }
  }
};

template <typename Id>
TokenArray tokenize_files(const std::vector<fs::path>& files, const fs::path& root,
                          const Tokenizer& tokenizer, const TextOptions& options,
                          std::vector<int64_t>* ends) {
  std::vector<Id> all;
  std::vector<int32_t> ids;
  size_t bytes = 0;
  for (const fs::path& file : files) {
    const std::string text = read_text_file(file, options.limit_bytes);
    bytes += text.size();
    if (bytes > options.limit_bytes) {
      throw_error(
          "{}: more than {} of text (reached at {}); use a smaller folder, a filter by extension, or a token "
          "file",
          root.string(), format_bytes(options.limit_bytes), file.string());
    }
    ids.clear();
    tokenizer.encode(text, ids);
    if (files.size() > 1 && tokenizer.end_of_text()) ids.push_back(*tokenizer.end_of_text());
    all.insert(all.end(), ids.begin(), ids.end());
    if (ends) ends->push_back(std::ssize(all));
  }
  if (bytes == 0) throw_error("{}: the text is empty", root.string());
  all.shrink_to_fit();
  return TokenArray::of(std::move(all), root.string());
}

}  // namespace

bool looks_like_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  char head[8192];
  in.read(head, sizeof head);
  return std::memchr(head, 0, static_cast<size_t>(in.gcount())) == nullptr;
}

std::vector<fs::path> find_text_files(const fs::path& path, const TextOptions& options) {
  if (!fs::exists(path))
    throw_error("{}: not found; give a text file or a folder of text files", path.string());
  if (!fs::is_directory(path)) return {path};
  Search search{options};
  search.folder(path);
  if (search.found.empty()) {
    throw_error("{}: no text file found in this folder ({} binary files and {} of other extensions skipped)",
                path.string(), search.binary, search.other);
  }
  return std::move(search.found);
}

TokenArray tokenize_text(const fs::path& path, const Tokenizer& tokenizer, const TextOptions& options,
                         std::vector<int64_t>* ends) {
  const std::vector<fs::path> files = find_text_files(path, options);
  if (tokenizer.vocab_size() <= 65536) return tokenize_files<uint16_t>(files, path, tokenizer, options, ends);
  return tokenize_files<uint32_t>(files, path, tokenizer, options, ends);
}

}  // namespace trireme
