// select: y = c ? a : b, with c a tensor of bytes.
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

namespace trireme::cpu {
namespace {

void select(const KernelContext& context) {
  const uint8_t* c = context.in<uint8_t>(0);
  for_blocks<2, 1>(pool_of(context), context.outputs[0].elements(), context.inputs.subspan(1),
                   context.outputs, [c](const Block<2, 1>& block) {
                     const uint8_t* chosen = c + block.begin;
                     for (int64_t i = 0; i < block.count; ++i) {
                       block.out[0][i] = chosen[i] ? block.in[0][i] : block.in[1][i];
                     }
                   });
}

}  // namespace

void add_select(KernelTable& table) {
  add_for_all_formats(table, "select", {select});
}

}  // namespace trireme::cpu
