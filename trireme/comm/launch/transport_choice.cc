// See transport_choice.h.
#include "trireme/comm/launch/transport_choice.h"

#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::comm {
namespace {

constexpr int kMostShmRanks = 64;  // of the shm transport

TransportKind chosen(const TransportQuestion& question) {
  if (question.ranks == 1) return TransportKind::inproc;
  if (question.hosts == 1 && question.ranks <= kMostShmRanks) return TransportKind::shm;
  return question.under_mpi ? TransportKind::mpi : TransportKind::tcp;
}

}  // namespace

TransportKind choose_transport(const TransportQuestion& question) {
  const std::string& wanted = question.wanted;
  if (wanted.empty()) return chosen(question);
  if (wanted == "shm") {
    if (question.hosts > 1) {
      throw_error(
          "--transport shm needs all ranks on one host, but the {} ranks are on {} hosts; use {}, or leave "
          "--transport out",
          question.ranks, question.hosts, question.under_mpi ? "mpi" : "tcp");
    }
    if (question.ranks > kMostShmRanks)
      throw_error("--transport shm is for up to {} ranks, not {}; use tcp", kMostShmRanks, question.ranks);
    return TransportKind::shm;
  }
  if (wanted == "tcp") {
    if (question.under_mpi && question.hosts > 1) {
      throw_error(
          "--transport tcp under {} is for one host: MPI does not say at which address a host is reached. "
          "Use --transport mpi, or start the ranks with torchrun's variables",
          question.launched_by);
    }
    return TransportKind::tcp;
  }
  if (wanted == "mpi") {
    if (!question.under_mpi) {
      throw_error(
          "--transport mpi needs ranks that mpirun or srun started, but these were launched by {}; use "
          "mpirun -n {} trireme …, or leave --transport out",
          question.launched_by, question.ranks);
    }
    return TransportKind::mpi;
  }
  if (wanted == "nccl")
    throw_error(
        "--transport nccl moves the memory of GPUs in `trireme train` and `trireme bench train` alone; known "
        "here are shm, tcp, mpi");
  const std::vector<std::string> names = {"shm", "tcp", "mpi"};
  const std::string guess = nearest(wanted, names);
  throw_error("there is no transport '{}'{}; known are {}", wanted,
              guess.empty() ? "" : "; did you mean '" + guess + "'?", trireme::join(names, ", "));
}

}  // namespace trireme::comm
