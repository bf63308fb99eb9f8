// The source of pairs: a file with a source and a target in each line, separated by a tab.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/data/data_source.h"
#include "trireme/data/file.h"
#include "trireme/data/pair_samples.h"

namespace trireme {
namespace pair_data {
namespace {

namespace fs = std::filesystem;

PairTokens tokenize(const DataOptions& options, const Tokenizer& tokenizer) {
  const std::string text = read_text_file(options.path, options.text.limit_bytes);
  PairTokens pairs;
  std::vector<int32_t> source, target;
  for (const PairText& pair : parse_pairs(text, options.path)) {
    source.clear();
    target.clear();
    tokenizer.encode(pair.source, source);
    tokenizer.encode(pair.target, target);
    pairs.append(source, target, pair.line);
  }
  return pairs;
}

OpenedData open(const DataOptions& options) {
  OpenedData data;
  data.tokenizer = open_tokenizer(options.tokenizer, options.tokenizer_path);
  const int64_t needed = data.tokenizer->vocab_size() + 1;
  data.vocab = options.vocab > 0 ? options.vocab : needed;
  if (data.vocab < needed)
    throw_error(
        "model.vocab is {}, but the tokenizer ({}) has {} ids, and one more ends each sequence; set it to {}, or "
        "to 0 for what the data needs",
        data.vocab, data.tokenizer->name(), needed - 1, needed);
  const PairTokens all = tokenize(options, *data.tokenizer);
  const bool evaluates = options.use == DataOptions::Use::kEvaluation;
  const int64_t held_out =
      evaluates ? all.size() : std::llround(static_cast<double>(all.size()) * options.validation);
  const int64_t source_seq = options.source_seq > 0 ? options.source_seq : options.seq;
  const auto samples = [&](PairTokens pairs) {
    return std::make_shared<PairSamples>(std::move(pairs), static_cast<int32_t>(data.vocab - 1), source_seq,
                                         options.seq);
  };
  try {
    PairTokens train = evaluates ? all : all.slice(0, all.size() - held_out);
    data.train_hash = train.hash();
    data.train = samples(std::move(train));
    if (held_out > 0) {
      PairTokens last = all.slice(all.size() - held_out, all.size());
      data.validation_hash = last.hash();
      data.validation = samples(std::move(last));
    }
  } catch (const Error& error) {
    throw_error("{}: {}", options.path, error.what());
  }
  data.input = {source_seq, options.seq};
  data.summary = evaluates
                     ? fmt::format("{} pairs", all.size())
                     : fmt::format("{} pairs for training, {} held out", all.size() - held_out, held_out);
  data.summary += fmt::format(", {} ids ({})", data.tokenizer->vocab_size(), data.tokenizer->name());
  return data;
}

bool detects(const fs::path& path) {
  return path.extension() == ".tsv" && fs::is_regular_file(path);
}

}  // namespace
}  // namespace pair_data

constinit const DataSource kPairSource{"pairs", "a .tsv file of lines with a source, a tab and a target",
                                       pair_data::detects, pair_data::open};

}  // namespace trireme
