// What a model of pairs makes of held-out sources, the likeliest token each time, beside their targets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/data/open_data.h"
#include "trireme/run/trained_model.h"
#include "trireme/runtime/device.h"

namespace trireme {

struct Translation {
  int64_t line = 0;  // of the file
  std::string source, target, predicted;
  bool exact() const { return predicted == target; }
};

// The first `samples` held-out pairs in their order, or all of them (0). Throws Error.
void translate_held_out(const TrainedModel& model, const OpenedData& data, Device& device, int64_t samples,
                        const std::function<void(const Translation&)>& on_pair);

}  // namespace trireme
