// Linear programs of which some variables are whole numbers, solved by Cbc.
#pragma once

#include <limits>
#include <utility>
#include <vector>

namespace trireme::place {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Least cost, of variables from 0 up.
class IntegerProgram {
 public:
  using Term = std::pair<int, double>;  // variable, factor

  int add_variable(double cost, double most, bool whole);
  void add_row(double least, double most, const std::vector<Term>& terms);

  struct Solution {
    enum class End { kOptimal, kInfeasible, kTime };
    End end = End::kInfeasible;
    bool found = false;          // whether there are values
    std::vector<double> values;  // by variable
    double bound = 0;            // no solution costs less
  };
  // Of what costs less than `cutoff`; where nothing does, that is infeasible. Throws Error where Trireme was
  // built without Cbc.
  Solution solve(double seconds, double cutoff) const;

 private:
  struct Row {
    double least, most;
    std::vector<Term> terms;
  };
  std::vector<double> cost_, most_;
  std::vector<bool> whole_;
  std::vector<Row> rows_;
};

}  // namespace trireme::place
