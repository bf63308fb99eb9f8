// The Network that a model's function is given in Python. It makes each call at once, on a graph that is
// thrown away, so that shapes are known and mistakes are told at their line; and notes it down.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/own_model.h"
#include "trireme/ir/builder.h"

namespace trireme::python {

class NotingNetwork;

// A value of that graph, for Python to call methods on.
struct NotedValue {
  std::shared_ptr<NotingNetwork> network;
  int number;

  const Shape& shape() const;
};

class NotingNetwork : public std::enable_shared_from_this<NotingNetwork> {
 public:
  explicit NotingNetwork(int64_t rows);

  NotedValue input(const SampleTensor& tensor);
  // `text` names the call, with all arguments that are neither values nor sizes.
  std::vector<NotedValue> note(std::string text, const std::vector<NotedValue>& inputs,
                               const NotedCall::Sizes& sizes, decltype(NotedCall::call) call);
  NotedValue note_one(
      std::string text, const std::vector<NotedValue>& inputs, const NotedCall::Sizes& sizes,
      std::function<ValueId(Playback&, const NotedCall::Inputs&, const NotedCall::Sizes&)> call);
  std::vector<NotedValue> op(const std::string& name, const std::vector<NotedValue>& inputs,
                             const std::vector<std::pair<std::string, AttrValue>>& attributes);

  const Shape& shape(int number) const {
    return network_.shape(playback_.values[static_cast<size_t>(number)]);
  }
  // Ends it: values that Python still has are of no use any more.
  Notes take(const std::vector<NotedValue>& results);

 private:
  int64_t rows_;
  Builder builder_;
  Network network_;
  Playback playback_;
  std::vector<NotedCall> calls_;
  bool ended_ = false;
};

}  // namespace trireme::python
