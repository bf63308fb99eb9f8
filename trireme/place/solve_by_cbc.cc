#include <Cbc_C_Interface.h>

#include <algorithm>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/place/integer_program.h"

namespace trireme::place {

IntegerProgram::Solution IntegerProgram::solve(double seconds, double cutoff) const {
  const int variables = static_cast<int>(cost_.size()), rows = static_cast<int>(rows_.size());
  // Cbc wants the matrix by columns.
  std::vector<std::vector<Term>> columns(cost_.size());
  std::vector<double> row_least, row_most;
  for (int r = 0; r < rows; ++r) {
    row_least.push_back(rows_[r].least);
    row_most.push_back(rows_[r].most);
    for (const auto& [variable, factor] : rows_[r].terms) columns[variable].emplace_back(r, factor);
  }
  std::vector<CoinBigIndex> starts = {0};
  std::vector<int> entry_rows;
  std::vector<double> entries;
  for (const std::vector<Term>& column : columns) {
    for (const auto& [row, factor] : column) {
      entry_rows.push_back(row);
      entries.push_back(factor);
    }
    starts.push_back(static_cast<CoinBigIndex>(entries.size()));
  }
  const std::unique_ptr<void, void (*)(void*)> model(Cbc_newModel(), [](void* m) { Cbc_deleteModel(m); });
  const std::vector<double> least(cost_.size(), 0);
  Cbc_loadProblem(model.get(), variables, rows, starts.data(), entry_rows.data(), entries.data(),
                  least.data(), most_.data(), cost_.data(), row_least.data(), row_most.data());
  for (int v = 0; v < variables; ++v) {
    if (whole_[v]) Cbc_setInteger(model.get(), v);
  }
  Cbc_setParameter(model.get(), "logLevel", "0");
  Cbc_setParameter(model.get(), "allowableGap", "0");
  Cbc_setParameter(model.get(), "ratioGap", "0");
  Cbc_setParameter(model.get(), "seconds", std::to_string(seconds).c_str());
  if (cutoff < kUnbounded) Cbc_setParameter(model.get(), "cutoff", fmt::format("{}", cutoff).c_str());
  Cbc_solve(model.get());

  Solution solution;
  constexpr int kFinished = 0;
  if (Cbc_status(model.get()) == kFinished && Cbc_isProvenInfeasible(model.get())) return solution;
  solution.end = Cbc_isProvenOptimal(model.get()) ? Solution::End::kOptimal : Solution::End::kTime;
  const double* values = Cbc_getColSolution(model.get());
  solution.found = solution.end == Solution::End::kOptimal || (values && Cbc_getObjValue(model.get()) < 1e40);
  if (solution.found) solution.values.assign(values, values + variables);
  solution.bound = solution.end == Solution::End::kOptimal ? Cbc_getObjValue(model.get())
                                                           : Cbc_getBestPossibleObjValue(model.get());
  return solution;
}

}  // namespace trireme::place
