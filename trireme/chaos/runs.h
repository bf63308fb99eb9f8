// Many drills, one after the other; and whether they leave anything in this process, however long they go on.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trireme/chaos/resources.h"
#include "trireme/chaos/result.h"
#include "trireme/chaos/scene.h"

namespace trireme::chaos {

struct RunsOptions {
  uint64_t seed = 1;   // of the first round; each round has the next one
  int times = 1;       // rounds
  double seconds = 0;  // 0, or rounds until so much time has passed
  SceneOptions scene = {};
};

struct Runs {
  std::vector<Result> results;
  int rounds = 0;
  Resources after_first_round, at_end;  // of this process

  // "" where nothing has grown that should not have.
  std::string leak() const;
  bool all_kept() const;
};

// `told`: hears of each result. Throws Error where a drill can not be made here at all.
Runs run_drills(std::span<const ChosenDrill> drills, const RunsOptions& options,
                const std::function<void(const Result&)>& told);

}  // namespace trireme::chaos
