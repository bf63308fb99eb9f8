// See translate.h. Pairs are taken in groups, whose texts go on together until each has met its end.
#include "trireme/run/translate.h"

#include <algorithm>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/data/pair_samples.h"
#include "trireme/run/generator.h"

namespace trireme {
namespace {

constexpr int64_t kTogether = 32;

int32_t likeliest_of(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// What becomes of the sources, whose numbers are also those of their texts.
std::vector<std::vector<int32_t>> translated(Generator& generator,
                                             std::span<const std::span<const int32_t>> sources) {
  std::vector<std::vector<int32_t>> results(sources.size());
  std::vector<int> open;
  for (size_t i = 0; i < sources.size(); ++i) {
    generator.begin(static_cast<int>(i), sources[i]);
    open.push_back(static_cast<int>(i));
  }
  const auto vocab = static_cast<size_t>(generator.vocab());
  for (int64_t drawn = 1; !open.empty(); ++drawn) {
    const std::span<const float> logits = generator.next(open);
    std::vector<int> left;
    for (size_t row = 0; row < open.size(); ++row) {
      const int32_t token = likeliest_of(logits.subspan(row * vocab, vocab));
      if (token == generator.end()) continue;
      results[static_cast<size_t>(open[row])].push_back(token);
      if (drawn == generator.longest_translation()) continue;
      generator.append(open[row], token);
      left.push_back(open[row]);
    }
    open = std::move(left);
  }
  return results;
}

}  // namespace

void translate_held_out(const TrainedModel& trained, const OpenedData& data, Device& device, int64_t samples,
                        const std::function<void(const Translation&)>& on_pair) {
  const auto* held_out = dynamic_cast<const PairSamples*>(data.validation.get());
  if (!held_out || !data.tokenizer)
    throw_error("the data is {} ({}), and pairs of a source and a target were expected", data.kind,
                data.summary);
  const PairTokens& pairs = held_out->pairs();
  const int64_t count = samples == 0 ? pairs.size() : std::min(samples, pairs.size());
  Generator generator(trained.model, device, static_cast<int>(std::min(kTogether, count)));
  read_trained_weights(trained, trained.model, generator.weights());
  // A model may have more ids than the tokenizer; those stand for nothing.
  const auto decoded = [&](std::span<const int32_t> ids) {
    std::vector<int32_t> known;
    std::ranges::copy_if(ids, std::back_inserter(known),
                         [&](int32_t id) { return id < data.tokenizer->vocab_size(); });
    return data.tokenizer->decode(known);
  };
  for (int64_t first = 0; first < count; first += kTogether) {
    std::vector<std::span<const int32_t>> sources;
    for (int64_t i = first; i < std::min(first + kTogether, count); ++i) sources.push_back(pairs[i].source);
    const std::vector<std::vector<int32_t>> results = translated(generator, sources);
    for (size_t i = 0; i < results.size(); ++i) {
      const PairTokens::Pair pair = pairs[first + static_cast<int64_t>(i)];
      on_pair({pair.line, decoded(pair.source), decoded(pair.target), decoded(results[i])});
    }
  }
}

}  // namespace trireme
