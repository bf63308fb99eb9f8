// See noting_network.h.
#include "python/noting_network.h"

#include <fmt/format.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme::python {
namespace {

// Attributes are sizes where they are integers.
NotedCall::Sizes sizes_in(const std::vector<std::pair<std::string, AttrValue>>& attributes) {
  NotedCall::Sizes sizes;
  for (const auto& [name, value] : attributes) {
    if (const auto* one = std::get_if<int64_t>(&value)) sizes.push_back(*one);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      sizes.insert(sizes.end(), list->begin(), list->end());
  }
  return sizes;
}

Attrs with_sizes(const std::vector<std::pair<std::string, AttrValue>>& attributes,
                 const NotedCall::Sizes& sizes) {
  Attrs attrs;
  auto next = sizes.begin();
  for (const auto& [name, value] : attributes) {
    AttrValue sized = value;
    if (auto* one = std::get_if<int64_t>(&sized)) *one = *next++;
    if (auto* list = std::get_if<std::vector<int64_t>>(&sized)) {
      for (int64_t& one : *list) one = *next++;
    }
    attrs.set(name, sized);
  }
  return attrs;
}

std::string text_without_sizes(const std::string& op,
                               std::vector<std::pair<std::string, AttrValue>> attributes) {
  const NotedCall::Sizes zeros(sizes_in(attributes).size());
  return op + print(with_sizes(attributes, zeros));
}

}  // namespace

const Shape& NotedValue::shape() const {
  return network->shape(number);
}

NotingNetwork::NotingNetwork(int64_t rows)
    : rows_(rows), builder_(ops(), "noted"), network_(builder_, Mode::kTrain, 0), playback_{network_, {}} {}

NotedValue NotingNetwork::input(const SampleTensor& tensor) {
  Shape shape{rows_};
  for (const int64_t extent : tensor.row) shape.push_back(extent);
  playback_.values.push_back(builder_.input(tensor.name, {tensor.dtype, shape}));
  return {shared_from_this(), static_cast<int>(playback_.values.size()) - 1};
}

std::vector<NotedValue> NotingNetwork::note(std::string text, const std::vector<NotedValue>& inputs,
                                            const NotedCall::Sizes& sizes, decltype(NotedCall::call) call) {
  if (ended_)
    throw_error("{}: the network of this model is made already; build it inside the model's function", text);
  NotedCall noted{.text = std::move(text), .call = std::move(call)};
  for (const NotedValue& input : inputs) {
    if (input.network.get() != this) throw_error("{}: a value of another network was given", noted.text);
    noted.inputs.push_back(input.number);
  }
  for (const int64_t size : sizes) noted.sizes.push_back({size, 0});
  const size_t first = playback_.values.size();
  noted.play(playback_, rows_);
  calls_.push_back(std::move(noted));
  std::vector<NotedValue> results;
  for (size_t number = first; number < playback_.values.size(); ++number)
    results.push_back({shared_from_this(), static_cast<int>(number)});
  return results;
}

NotedValue NotingNetwork::note_one(
    std::string text, const std::vector<NotedValue>& inputs, const NotedCall::Sizes& sizes,
    std::function<ValueId(Playback&, const NotedCall::Inputs&, const NotedCall::Sizes&)> call) {
  return note(std::move(text), inputs, sizes,
              [call = std::move(call)](Playback& playback, const NotedCall::Inputs& values,
                                       const NotedCall::Sizes& numbers) -> std::vector<ValueId> {
                return {call(playback, values, numbers)};
              })[0];
}

std::vector<NotedValue> NotingNetwork::op(const std::string& name, const std::vector<NotedValue>& inputs,
                                          const std::vector<std::pair<std::string, AttrValue>>& attributes) {
  return note(
      text_without_sizes(name, attributes), inputs, sizes_in(attributes),
      [name, attributes](Playback& playback, const NotedCall::Inputs& values, const NotedCall::Sizes& sizes) {
        return playback.network.node(name, values, with_sizes(attributes, sizes));
      });
}

Notes NotingNetwork::take(const std::vector<NotedValue>& results) {
  Notes notes{std::move(calls_), {}};
  for (const NotedValue& result : results) {
    if (result.network.get() != this) throw_error("the model's function returned a value of another network");
    notes.results.push_back(result.number);
  }
  playback_.scopes.clear();
  ended_ = true;
  return notes;
}

}  // namespace trireme::python
