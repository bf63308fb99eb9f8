// Lengths first; gathered texts lie in rooms as long as the longest.
#include "trireme/comm/texts.h"

#include <algorithm>

namespace trireme::comm {

std::string broadcast_text(std::string text, Group& group) {
  int64_t size = static_cast<int64_t>(text.size());
  group.broadcast(&size, 1, DType::i64, /*root=*/0).wait();
  text.resize(static_cast<size_t>(size));
  group.broadcast(text.data(), size, DType::u8, /*root=*/0).wait();
  return text;
}

std::vector<std::string> gather_texts(const std::string& own, Group& group) {
  std::vector<int64_t> sizes(group.size());
  sizes[group.rank()] = static_cast<int64_t>(own.size());
  group.all_gather(sizes.data(), group.size(), DType::i64).wait();
  const int64_t longest = *std::ranges::max_element(sizes);
  std::string all(static_cast<size_t>(longest * group.size()), '\0');
  std::ranges::copy(own, all.begin() + longest * group.rank());
  group.all_gather(all.data(), static_cast<int64_t>(all.size()), DType::u8).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank)
    texts.push_back(all.substr(static_cast<size_t>(longest * rank), static_cast<size_t>(sizes[rank])));
  return texts;
}

}  // namespace trireme::comm
