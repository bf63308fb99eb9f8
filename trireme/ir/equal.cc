// See equal.h.
#include "trireme/ir/equal.h"

#include <algorithm>

namespace trireme {

bool are_equal(const Graph& a, const Graph& b, GraphNames names) {
  return (names == GraphNames::kIgnored || a.name == b.name) &&
         std::ranges::equal(a.nodes, b.nodes,
                            [](const Node& one, const Node& other) {
                              return one.op == other.op && one.inputs == other.inputs &&
                                     one.outputs == other.outputs && one.attrs == other.attrs;
                            }) &&
         std::ranges::equal(a.values, b.values,
                            [](const Value& one, const Value& other) {
                              return one.kind == other.kind && one.node == other.node &&
                                     one.role == other.role && one.type == other.type &&
                                     one.name == other.name && one.attrs == other.attrs;
                            }) &&
         std::ranges::equal(a.updates, b.updates,
                            [](const Update& one, const Update& other) {
                              return one.state == other.state && one.value == other.value;
                            }) &&
         std::ranges::equal(a.outputs, b.outputs, [](const Output& one, const Output& other) {
           return one.value == other.value && one.role == other.role && one.name == other.name;
         });
}

}  // namespace trireme
