// The sources of language models: text, tokenized here, and files of tokens made elsewhere.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/train/data/data_source.h"
#include "trireme/train/data/file.h"
#include "trireme/train/data/token_file.h"
#include "trireme/train/data/token_windows.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

// Ids beyond this are damage, not a vocabulary: 60 times the largest that is in use.
constexpr int64_t kLargestGuessedVocab = int64_t{1} << 24;

// Windows over both parts; without a part of its own, the end of the tokens is held out.
OpenedData make_token_data(TokenArray train, TokenArray held_out, const DataOptions& options) {
  if (held_out.size() == 0 && options.validation > 0) {
    const int64_t count = std::llround(static_cast<double>(train.size()) * options.validation);
    held_out = train.slice(train.size() - count, train.size());
    train = train.slice(0, train.size() - count);
  }
  OpenedData data;
  data.summary = fmt::format("{} tokens for training, {} held out", train.size(), held_out.size());
  try {
    data.train =
        std::make_shared<TokenWindows>(std::move(train), options.seq, WindowStart::per_epoch, options.seed);
    if (held_out.size() > 0)
      data.validation =
          std::make_shared<TokenWindows>(std::move(held_out), options.seq, WindowStart::fixed, options.seed);
  } catch (const Error& error) {
    throw_error("{} ({}): {}", options.path, data.summary, error.what());
  }
  return data;
}

OpenedData open_text(const DataOptions& options) {
  auto tokenizer = open_tokenizer(options.tokenizer, options.tokenizer_path);
  TokenArray tokens = tokenize_text(options.path, *tokenizer, options.text);
  if (options.vocab > 0 && options.vocab < tokenizer->vocab_size()) tokens.check(options.vocab);
  OpenedData data = make_token_data(std::move(tokens), {}, options);
  data.vocab = options.vocab > 0 ? options.vocab : tokenizer->vocab_size();
  data.summary += fmt::format(", tokenizer {} of {} ids", tokenizer->name(), tokenizer->vocab_size());
  data.tokenizer = std::move(tokenizer);
  return data;
}

std::vector<fs::path> token_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::path& entry : sorted_entries(path)) {
    if (entry.extension() == ".bin") files.push_back(entry);
  }
  return files;
}

// "val.bin" beside "train.bin" (nanoGPT) or "..._val_000.bin" beside "..._train_001.bin" (llm.c).
bool is_held_out(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("val") || name.find("_val") != std::string::npos;
}

OpenedData open_tokens(const DataOptions& options) {
  const std::vector<fs::path> files = token_files(options.path);
  if (files.empty()) throw_error("{}: no .bin file found; {} expected", options.path, kTokenSource.expects);
  TokenArray train, held_out;
  for (const fs::path& file : files)
    (files.size() > 1 && is_held_out(file) ? held_out : train).append(open_token_file(file));
  if (train.size() == 0)
    throw_error("{}: only held-out token files (val) found; a training file was expected as well",
                options.path);

  // A token file does not say which tokenizer made it; one that is named is used to decode samples.
  std::shared_ptr<const Tokenizer> tokenizer;
  if (options.tokenizer != "bytes") tokenizer = open_tokenizer(options.tokenizer, options.tokenizer_path);
  int64_t vocab = options.vocab;
  if (vocab == 0 && tokenizer) vocab = tokenizer->vocab_size();
  if (vocab == 0) {
    vocab = std::max(train.largest(), held_out.largest()) + 1;
    if (vocab > kLargestGuessedVocab) {
      throw_error(
          "{}: the largest token is {}, which no tokenizer makes; the file is damaged, or not of token ids. "
          "model.vocab names the first wrong one",
          options.path, vocab - 1);
    }
  } else {
    train.check(vocab);
    held_out.check(vocab);
  }
  OpenedData data = make_token_data(std::move(train), std::move(held_out), options);
  data.vocab = vocab;
  data.tokenizer = std::move(tokenizer);
  data.summary += fmt::format(", from {} file{}", files.size(), files.size() == 1 ? "" : "s");
  return data;
}

bool detects_tokens(const fs::path& path) {
  if (fs::is_directory(path))
    return fs::exists(path / "train.bin") ||
           std::ranges::any_of(token_files(path), [](const fs::path& file) { return is_held_out(file); });
  return path.extension() == ".bin";
}

bool detects_text(const fs::path& path) {
  return fs::is_directory(path) || looks_like_text(path);
}

}  // namespace

constinit const DataSource kTokenSource{
    "tokens",
    "a .bin file of token ids (llm.c or nanoGPT), or a folder of them with "
    "train and val in their names",
    detects_tokens, open_tokens};
constinit const DataSource kTextSource{"text", "a text file, or a folder of text files", detects_text,
                                       open_text};

}  // namespace trireme
