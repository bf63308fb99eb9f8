// The text form of a Program: it prints, and it parses back to the same text.
//
//   program
//   mesh data:2 tensor:2             absent for one rank
//   rank 1
//   sums in_pairs                    only if sums over ranks must add neighbours first
//   parameters 4096                  of the whole model
//   memory {states=1408, comm_from=1024, arena=4096, comm=512, inputs=192}
//   state %w: f32[4,4] parameter {init="normal"}
//   at {offset=0, slots=1, whole=[4,8], dim0=[0,4], dim1=[4,4], axes="tensor"}
//   …                                also places, sums, stages, group and group_rows, if a state has them
//   group g0 {offset=0, file_offset=0, bytes=64, slot=0}     states that live in a file together
//   remote %v: f32[8] parameter      a state that only another pipeline stage or server holds
//   segment first forward_backward
//   graph first                      (ir/text.h)
//   …
//   place %w states 0                memory space of each value (arena, comm, states, inputs) and offset
//   …
//   workspace 3 2048 256             node, offset in the arena, bytes
//   copy %w <- %w2                   an update that is not made in place
//   sizes {arena=4096, comm=512, inputs=192}
//   list step {when="step", rows=8, begin=4, size=4, microbatches=2}      (schedule/action_list.h)
//   run first 0                      segment, microbatch; then the slot, if it is not 0
//   send %x 3                        state, rank; then the slot, if it is not 0
//   receive %y 3
//   reduce %x                        starts the sum over data of a state; then the slot, if it is not 0
//   await %x                         waits for that sum
//   fetch g0                         reads a group from its file
//   store g0                         writes it back
//
// Layouts are not part of the text: they are for people, and nothing that runs reads them.
#pragma once

#include <string>
#include <string_view>

#include "trireme/program/program.h"

namespace trireme {

std::string print(const Program& program);

// Throws an Error with the line number if the text is not a program. verify.h checks that it can run.
Program parse_program(std::string_view text, const OpTable& ops);

}  // namespace trireme
