// A state that a graph sees some rows of, under the state's own name: what is done row by row can then be
// done in pieces. All graphs that see a state's rows are about one and the same state.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

Value window(const Value& state, int64_t first_row, int64_t rows);
// Where it begins in the state; 0 for a whole state.
int64_t first_row(const Value& state);
// Of all of the state.
TensorType whole_type(const Value& state);
// How the state itself is declared.
Value without_window(const Value& state);

}  // namespace trireme
