// See collectives.h.
#include "trireme/reproduce/collectives.h"

#include <algorithm>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/comparison.h"
#include "trireme/comm/collective/emulated_link.h"

namespace trireme::reproduce {

Sent sent_by(comm::Algorithm algorithm, int ranks) {
  const auto bytes = static_cast<size_t>(kExampleBytes);
  const std::vector<comm::Compared> all =
      comm::compared(comm::Collective::all_reduce, std::vector<int>(static_cast<size_t>(ranks), 0), bytes,
                     comm::kDefaultSegmentBytes, comm::costs_over(comm::parse_emulated_link("office")));
  const auto found = std::ranges::find(all, algorithm, &comm::Compared::algorithm);
  TRIREME_CHECK(found != all.end());
  return {.rounds = static_cast<double>(found->rounds),
          .fan_in = static_cast<double>(found->fan_in),
          .in_all = static_cast<double>(found->total_bytes) / kExampleBytes,
          .by_busiest = static_cast<double>(found->busiest_bytes) / kExampleBytes};
}

comm::Link example_link() {
  return comm::parse_emulated_link("office").costs();
}

double example_seconds(const comm::Formula& form) {
  return comm::formula_seconds(form, static_cast<size_t>(kExampleBytes), example_link());
}

double example_seconds(comm::Algorithm algorithm, int ranks) {
  return example_seconds(comm::formula(comm::Collective::all_reduce, algorithm, ranks));
}

}  // namespace trireme::reproduce
