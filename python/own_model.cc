// See own_model.h: notes are played back.
#include "python/own_model.h"

namespace trireme::python {

void NotedCall::play(Playback& playback, int64_t rows) const {
  Inputs values;
  for (const int input : inputs) values.push_back(playback.values[static_cast<size_t>(input)]);
  Sizes numbers;
  for (const Size& size : sizes) numbers.push_back(size.at(rows));
  for (const ValueId result : call(playback, values, numbers)) playback.values.push_back(result);
}

std::vector<ValueId> Notes::play(Network& network, const std::vector<ValueId>& inputs) const {
  Playback playback{network, inputs};
  const int64_t rows = network.shape(inputs[0])[0];
  for (const NotedCall& call : calls) call.play(playback, rows);
  std::vector<ValueId> values;
  for (const int result : results) values.push_back(playback.values[static_cast<size_t>(result)]);
  return values;
}

}  // namespace trireme::python
