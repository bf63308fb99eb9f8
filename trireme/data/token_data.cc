// The sources of language models: text, tokenized here, and files of tokens made elsewhere.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/data_source.h"
#include "trireme/data/file.h"
#include "trireme/data/masked_tokens.h"
#include "trireme/data/token_file.h"
#include "trireme/data/token_windows.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

// Ids beyond this are damage, not a vocabulary: 60 times the largest that is in use.
constexpr int64_t kLargestGuessedVocab = int64_t{1} << 24;

// What is trained on and what is held out, read once to know its largest id and what it is.
struct TokenParts {
  TokenArray train, held_out;
  TokenArray::Scan train_scan, held_out_scan;

  int64_t largest() const { return std::max(train_scan.largest, held_out_scan.largest); }
  void check(int64_t vocab) const {
    train.check(vocab, largest());
    held_out.check(vocab, largest());
  }
};

// Without a part of its own, the end of the tokens is held out.
TokenParts scan_parts(TokenArray train, TokenArray held_out, const DataOptions& options) {
  if (options.use == DataOptions::Use::kEvaluation) {
    TokenArray all = held_out.size() > 0 ? std::move(held_out) : std::move(train);
    const TokenArray::Scan scan = all.scan();
    TokenArray again = all.slice(0, all.size());
    return {std::move(all), std::move(again), scan, scan};
  }
  if (held_out.size() == 0 && options.validation > 0) {
    const int64_t count = std::llround(static_cast<double>(train.size()) * options.validation);
    held_out = train.slice(train.size() - count, train.size());
    train = train.slice(0, train.size() - count);
  }
  const TokenArray::Scan train_scan = train.scan(), held_out_scan = held_out.scan();
  return {std::move(train), std::move(held_out), train_scan, held_out_scan};
}

// Ids that no token has.
int64_t mask_ids(const DataOptions& options) {
  return options.masked_fraction > 0 ? 1 : 0;
}

// Of `vocab` ids, the mask among them.
std::shared_ptr<const DataSet> make_windows(TokenArray tokens, int64_t vocab, WindowStart start,
                                            const DataOptions& options, std::vector<int64_t> text_ends = {}) {
  TokenWindows windows(std::move(tokens), vocab - mask_ids(options), options.seq, start, options.seed,
                       std::move(text_ends));
  if (options.masked_fraction == 0) return std::make_shared<TokenWindows>(std::move(windows));
  return std::make_shared<MaskedTokens>(std::move(windows), static_cast<int32_t>(vocab - 1),
                                        options.masked_fraction, options.seed);
}

// Windows over both parts. `text_ends`: of several texts, where each ends.
OpenedData make_token_data(TokenParts parts, int64_t vocab, const DataOptions& options,
                           std::vector<int64_t> text_ends = {}) {
  OpenedData data;
  data.vocab = vocab;
  data.train_hash = parts.train_scan.xxh64;
  const bool evaluates = options.use == DataOptions::Use::kEvaluation;
  data.summary = evaluates ? fmt::format("{} tokens", parts.held_out.size())
                           : fmt::format("{} tokens for training, {} held out", parts.train.size(),
                                         parts.held_out.size());
  try {
    data.train =
        make_windows(std::move(parts.train), vocab, evaluates ? WindowStart::fixed : WindowStart::per_epoch,
                     options, std::move(text_ends));
    if (parts.held_out.size() > 0) {
      data.validation_hash = parts.held_out_scan.xxh64;
      data.validation = make_windows(std::move(parts.held_out), vocab, WindowStart::fixed, options);
    }
  } catch (const Error& error) {
    throw_error("{} ({}): {}", options.path, data.summary, error.what());
  }
  return data;
}

OpenedData open_text(const DataOptions& options) {
  auto tokenizer = open_tokenizer(options.tokenizer, options.tokenizer_path);
  std::vector<int64_t> text_ends;
  TokenParts parts =
      scan_parts(tokenize_text(options.path, *tokenizer, options.text, &text_ends), {}, options);
  if (options.vocab > 0) parts.check(options.vocab - mask_ids(options));
  OpenedData data = make_token_data(
      std::move(parts), options.vocab > 0 ? options.vocab : tokenizer->vocab_size() + mask_ids(options),
      options, std::move(text_ends));
  data.summary += fmt::format(", {} ids ({})", tokenizer->vocab_size(), tokenizer->name());
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
  if (train.size() == 0 && options.use == DataOptions::Use::kTraining)
    throw_error("{}: only held-out token files (val) found; a training file was expected as well",
                options.path);

  // A token file does not say which tokenizer made it; one that is named is used to decode samples.
  std::shared_ptr<const Tokenizer> tokenizer;
  if (options.tokenizer != "bytes") tokenizer = open_tokenizer(options.tokenizer, options.tokenizer_path);
  int64_t vocab = options.vocab;
  if (vocab == 0 && tokenizer) vocab = tokenizer->vocab_size() + mask_ids(options);
  TokenParts parts = scan_parts(std::move(train), std::move(held_out), options);
  if (vocab == 0) {
    vocab = parts.largest() + 1 + mask_ids(options);
    if (vocab > kLargestGuessedVocab) {
      throw_error(
          "{}: the largest token is {}, which no tokenizer makes; the file is damaged, or not of token ids. "
          "model.vocab names the first wrong one",
          options.path, vocab - 1);
    }
  } else {
    parts.check(vocab - mask_ids(options));
  }
  OpenedData data = make_token_data(std::move(parts), vocab, options);
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
    "a .bin file of token ids (llm.c or nanoGPT), or a folder of them with train and val in their names",
    detects_tokens, open_tokens};
constinit const DataSource kTextSource{"text", "a text file, or a folder of text files", detects_text,
                                       open_text};

}  // namespace trireme
