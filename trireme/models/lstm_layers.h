// What models of LSTM layers share. Parameters have PyTorch's names, shapes and gate order (input, forget, cell,
// output), and layers are unrolled over time: x is [time, batch, features], so that one time is one run of
// memory.
#pragma once

#include <string>

#include "trireme/models/network.h"
#include "trireme/models/options.h"

namespace trireme {

// An Error where layers · times would make a graph too large: each time of each layer is some ten nodes.
void check_lstm_steps(const ModelOptions& options, int64_t times);

// Rows of the table for ids [batch, time], as [time, batch, hidden].
ValueId lstm_embed(Network& net, ValueId table, ValueId ids, const std::string& name);

// options.layers layers with the parameters `name.weight_ih_l0` …; returns the states of the last one at all
// times. Every layer starts with the state `start` [batch, hidden], or with zeros, and an empty cell.
ValueId lstm_layers(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                    ValueId start = kNoValue);

// Logits of x [batch, time, hidden]: a linear layer, whose weight may be the embedding's table.
ValueId lstm_head(Network& net, const ModelOptions& options, ValueId x, ValueId table);

ValueId swap_time_and_batch(Network& net, ValueId x);

}  // namespace trireme
