// See file_turns.h.
#include "trireme/program/file_turns.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/program/program.h"

namespace trireme {

std::vector<Action> with_file_turns(std::vector<Action> step, const std::string& update,
                                    const std::vector<std::string>& parts) {
  const auto at = std::ranges::find_if(
      step, [&](const Action& action) { return action.kind == Action::Kind::kRun && action.what == update; });
  TRIREME_CHECK(at != step.end());
  std::vector<Action> result;
  const size_t slots = kStagingSlots;
  for (size_t g = 1; g < parts.size() && g <= slots; ++g) result.push_back(Action::fetch(parts[g]));
  result.insert(result.end(), step.begin(), at);
  result.push_back(Action::run(parts[0]));
  for (size_t g = 1; g < parts.size(); ++g) {
    result.push_back(Action::run(parts[g]));
    result.push_back(Action::store(parts[g]));
    // The group before this one has had the time of this run to go back.
    if (g > 1 && g - 1 + slots < parts.size()) result.push_back(Action::fetch(parts[g - 1 + slots]));
  }
  result.insert(result.end(), at + 1, step.end());
  return result;
}

}  // namespace trireme
