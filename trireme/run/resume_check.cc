// The settings sorted by what a change of them means to a run that goes on.
#include "trireme/run/resume_check.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// With another one of these the weights or the optimizer's states do not fit or mean something else, the
// position in the data is that of other samples, or random numbers repeat.
constexpr std::string_view kRefused[] = {
    "model.family",       "model.layers",     "model.heads",        "model.kv_heads",  "model.hidden",
    "model.feed_forward", "model.vocab",      "model.classes",      "model.rope_base", "model.seq",
    "model.channels",     "model.width",      "model.stem",         "model.patch",     "model.window",
    "model.lora.rank",    "model.lora.alpha", "model.lora.targets", "train.freeze",    "train.seed",
    "training data"};

// Of no consequence for the numbers.
constexpr std::string_view kPassedOver[] = {"run.resume",
                                            "run.keep",
                                            "run.checkpoint_every",
                                            "train.eval_every",
                                            "train.eval_batches",
                                            "train.compare_every",
                                            "train.recheck_every",
                                            "train.patience",
                                            "train.max_minutes",
                                            "run.keep_best",
                                            "run.memory_copy_every",
                                            "run.hours_between_failures",
                                            "run.sample_every",
                                            "run.timeline_step"};

// Whether weights that checkpoints leave out would be others, or states would be missing or too many.
bool changes_states(std::string_view name, const std::map<std::string, std::string>& before,
                    const std::string& was, const std::string& is) {
  if (name == "train.init_from") {
    const auto rank = before.find("model.lora.rank");
    return rank != before.end() && rank->second != "0";
  }
  return name == "train.ema" && (was == "0.0") != (is == "0.0");
}

template <size_t kCount>
bool contains(const std::string_view (&list)[kCount], std::string_view name) {
  return std::ranges::find(list, name) != std::end(list);
}

}  // namespace

ResumeChanges changes_since(const TrainState& saved, const Facts& now) {
  std::map<std::string, std::string> before = saved.made_with;
  before["train.seed"] = fmt::format("{}", saved.seed);  // older checkpoints have this alone
  ResumeChanges changes;
  for (const Fact& fact : now) {
    const auto found = before.find(fact.name);
    if (found == before.end() || found->second == fact.value || contains(kPassedOver, fact.name)) continue;
    const bool refused =
        contains(kRefused, fact.name) || changes_states(fact.name, before, found->second, fact.value);
    (refused ? changes.refused : changes.told)
        .push_back(fmt::format("{} was {} and is {}", fact.name, found->second, fact.value));
  }
  return changes;
}

}  // namespace trireme
