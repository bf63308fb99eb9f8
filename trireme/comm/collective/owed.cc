// The definitions of the collectives, as a table of two questions.
#include "trireme/comm/collective/owed.h"

#include "trireme/base/error.h"

namespace trireme::comm {

int Owed::chunks() const {
  switch (collective_) {
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
      return ranks_;
    case Collective::all_to_all:
      return ranks_ * ranks_;
    default:
      return 0;
  }
}

bool Owed::gives(int rank, int piece) const {
  const int chunk = piece / pieces_;
  switch (collective_) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::reduce:
    case Collective::barrier:
      return true;
    case Collective::all_gather:
    case Collective::gather:
      return chunk == rank;
    case Collective::broadcast:
    case Collective::scatter:
      return rank == root_;
    case Collective::all_to_all:
      return chunk / ranks_ == rank;
    case Collective::message:
      break;
  }
  throw_error("a single message is not run by steps, so there is nothing to check");
}

bool Owed::gets(int rank, int piece) const {
  const int chunk = piece / pieces_;
  switch (collective_) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::broadcast:
    case Collective::barrier:
      return true;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return chunk == rank;
    case Collective::reduce:
    case Collective::gather:
      return rank == root_;
    case Collective::all_to_all:
      return chunk % ranks_ == rank;
    case Collective::message:
      break;
  }
  return false;
}

}  // namespace trireme::comm
