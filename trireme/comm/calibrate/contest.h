// Ways to run one call that should take about as long, timed in turns: a few percent are beyond any
// prediction, but not beyond that.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

class Contest {
 public:
  // After which a way that is far behind is dropped, and the clock knows better than the prediction.
  static constexpr size_t kFewestRounds = 7;
  // After which it needs no more time than its share.
  static constexpr size_t kEnoughRounds = 15;

  // At least one, the best by prediction first.
  explicit Contest(const std::vector<Choice>& ways);

  // A round: times each way that is left. Ranks that measure the same figures leave the same ways.
  void play(const std::function<double(const Choice&)>& seconds_of);
  bool decided() const { return ways_.size() == 1; }
  size_t rounds() const { return ways_[0].ratios.size(); }
  const Choice& winner() const;

 private:
  struct Way {
    Choice choice;
    std::vector<double> ratios = {};  // of its time to the best, in each round
  };
  static double ratio_at(const Way& way, double share);  // above which the rest of its ratios lie
  static double middle(const Way& way);
  double least_middle() const;
  void drop_hopeless();

  std::vector<Way> ways_;
};

}  // namespace trireme::comm
