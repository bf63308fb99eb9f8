// See share.h.
#include "trireme/comm/calibrate/share.h"

namespace trireme::comm {

std::string text_of_rank_0(Context& context, std::string text) {
  Group group = context.world();
  auto bytes = static_cast<int64_t>(text.size());
  group.broadcast(&bytes, 1, DType::i64, 0).wait();
  text.resize(static_cast<size_t>(bytes));
  group.broadcast(text.data(), bytes, DType::u8, 0).wait();
  return text;
}

}  // namespace trireme::comm
