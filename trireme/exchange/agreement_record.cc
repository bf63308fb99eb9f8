// The list of all kinds.
#include "trireme/exchange/agreement_record.h"

#include <algorithm>
#include <numeric>

namespace trireme {

const AgreementRecord& record_of(const Agreement& agreement) {
  using enum Agreement::Kind;
  static const std::vector<AgreementRecord> records = {
      {kDense, AgreementRecord::States::kAlike, nullptr},
      {kCompressed, AgreementRecord::States::kAlike, nullptr},
      averaged_record(),
      mixed_record(),
      served_record()};
  return *std::ranges::find(records, agreement.kind(), &AgreementRecord::kind);
}

StepHalf step_half(const Agreement& agreement, int rank) {
  if (!agreement.servers()) return StepHalf::kBoth;
  return agreement.servers()->serves(rank) ? StepHalf::kUpdate : StepHalf::kGradients;
}

bool goes_by_arrivals(const Agreement& agreement, int rank) {
  return step_half(agreement, rank) == StepHalf::kUpdate ||
         (agreement.kind() == Agreement::Kind::kMixed && !agreement.is_in_step());
}

std::vector<int> keepers(const Agreement& agreement) {
  std::vector<int> ranks(agreement.servers() ? static_cast<size_t>(agreement.servers()->count) : 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Of several servers not all would lose a worker at the same step.
std::vector<int> dispensable_ranks(const Agreement& agreement) {
  const Servers* const servers = agreement.servers();
  std::vector<int> workers(servers && servers->count == 1 ? static_cast<size_t>(servers->workers) : 0);
  std::iota(workers.begin(), workers.end(), 1);
  return workers;
}

}  // namespace trireme
