// Text from a file or a folder, as one sequence of tokens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trireme/data/token_array.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

struct TextOptions {
  std::vector<std::string> extensions;             // "txt", ".md"; none: every file that is not binary
  std::vector<std::string> skip_folders{"build"};  // by name; hidden files and folders are always skipped
  size_t limit_bytes = size_t{4} << 30;            // of all text together; it is held in memory as tokens
};

// The text files of a folder and the folders below it, in byte order of their paths; or the file itself.
// Binary files (a zero byte near the start) and the folders of runs are skipped in folders. Links to folders
// are not followed.
std::vector<std::filesystem::path> find_text_files(const std::filesystem::path& path,
                                                   const TextOptions& options);

// True when the file looks like text: no zero byte in the first 8 KiB.
bool looks_like_text(const std::filesystem::path& path);

// All files, one after the other, each followed by the tokenizer's end_of_text where it has one and there
// are several; where each ends is added to `ends`, where that is given. Throws Error when there is no text or
// more than options.limit_bytes of it.
TokenArray tokenize_text(const std::filesystem::path& path, const Tokenizer& tokenizer,
                         const TextOptions& options, std::vector<int64_t>* ends = nullptr);

}  // namespace trireme
