// See window.h: attributes of the state's value.
#include "trireme/ir/window.h"

namespace trireme {
namespace {

constexpr std::string_view kFirst = "first_row", kOf = "of_rows";

}  // namespace

Value window(const Value& state, int64_t first_row, int64_t rows) {
  Value result = state;
  result.attrs.set(kFirst, first_row);
  result.attrs.set(kOf, state.type.shape[0]);
  result.type.shape.set(0, rows);
  return result;
}

int64_t first_row(const Value& state) {
  return state.attrs.integer(kFirst, 0);
}

TensorType whole_type(const Value& state) {
  TensorType type = state.type;
  if (state.attrs.has(kOf)) type.shape.set(0, state.attrs.integer(kOf));
  return type;
}

Value without_window(const Value& state) {
  Value result = state;
  result.type = whole_type(state);
  result.attrs.erase(kFirst);
  result.attrs.erase(kOf);
  return result;
}

}  // namespace trireme
