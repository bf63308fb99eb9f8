// A model of the program's own. Its function is called when the model is made, with a Network that notes down
// what it is asked for; the graphs of training, evaluation and any batch size are made by playing that back.
// So no thread of a run ever calls Python for its model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "python/bindings.h"
#include "trireme/models/model.h"

namespace trireme::python {

// A network in the making, from the notes: the values that calls have made so far, by number.
struct Playback {
  Network& network;
  std::vector<ValueId> values;
  std::vector<std::unique_ptr<Builder::Scope>> scopes = {};  // that are open
};

// One call of a Network.
struct NotedCall {
  std::string text;         // what is called, with all that does not depend on the number of rows
  std::vector<int> inputs;  // numbers of values
  // Sizes: `fixed` + rows · `per_row`. A function is called with several numbers of rows to tell them apart.
  struct Size {
    int64_t fixed = 0, per_row = 0;
    int64_t at(int64_t rows) const { return fixed + rows * per_row; }
  };
  std::vector<Size> sizes;
  using Inputs = std::vector<ValueId>;
  using Sizes = std::vector<int64_t>;
  std::function<std::vector<ValueId>(Playback&, const Inputs&, const Sizes&)> call;

  // Makes the call and adds its results to the values.
  void play(Playback& playback, int64_t rows) const;
};

struct Notes {
  std::vector<NotedCall> calls;
  std::vector<int> results;  // numbers of values

  std::vector<ValueId> play(Network& network, const std::vector<ValueId>& inputs) const;
};

struct OwnModel {
  ModelRecord record;
  std::shared_ptr<const Notes> notes;
};

}  // namespace trireme::python
