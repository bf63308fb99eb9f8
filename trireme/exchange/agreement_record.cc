// The list of all kinds.
#include "trireme/exchange/agreement_record.h"

#include <algorithm>

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

}  // namespace trireme
