// The text form of a Program: it prints, and it parses back to the same text.
//
//   program
//   mesh data:2 tensor:2
//   rank 1
//   parameters 4096                  of the whole model
//   memory {states=1408, comm_from=1024, arena=4096, comm=512, inputs=192}
//   state %w: f32[4,4] parameter {init="normal"}
//   at {offset=0, slots=1, whole=[4,8], dim0=[0,4], dim1=[4,4], axes="tensor"}
//   …
//   elsewhere %v: f32[8] parameter   a state that another stage of a pipeline has
//   segment first forward_backward
//   graph first                      (ir/text.h)
//   …
//   place %w states 0                where each value lies: arena, comm, states or inputs, and the offset
//   …
//   workspace 3 2048 256             node, offset in the arena, bytes
//   copy %w <- %w2                   an update that is not made in place
//   sizes {arena=4096, comm=512, inputs=192}
//   list step {rows=8, begin=4, size=4, microbatches=2}      and every, first, of lists that have them
//   run first 0                      segment, microbatch; then the slot, where it is not 0
//   send %x 3                        state, rank; then the slot
//   receive %y 3
//
// Layouts are not part of it: they are for people, and nothing that runs asks for them.
#pragma once

#include <string>
#include <string_view>

#include "trireme/program/program.h"

namespace trireme {

std::string print(const Program& program);

// Throws an Error with the line number for text that is not a program's. That it can be run is for verify.h.
Program parse_program(std::string_view text, const OpTable& ops);

}  // namespace trireme
