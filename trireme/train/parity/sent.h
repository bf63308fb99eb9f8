// What ranks should send in a list of actions: by the Steps that each collective is made of, which the
// transport must count to the byte, and by the promise of the programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trireme/program/program.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::parity {

// By this rank, on a transport that has nothing but Steps and between ranks of one host.
uint64_t bytes_by_steps(const Program& program, const ActionList& list, const AxisAlgorithms& algorithms);

// A promise is the average of ranks that send unequal parts by rings: the programs of all ranks must promise
// in this step (from 1) what rings send. "" where they do.
std::string promise_problem(std::span<const Program> programs, int64_t step);

}  // namespace trireme::parity
