// Printing of graphs; the format is described in text.h.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"

namespace trireme {
namespace {

struct AttrPrinter {
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    // The shortest text that reads back to the same number, and that cannot be taken for an integer.
    std::string text = fmt::format("{}", value);
    if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::string operator()(const std::string& value) const {
    std::string text = "\"";
    for (char c : value) {
      if (c == '"' || c == '\\') text += '\\';
      if (c == '\n')
        text += "\\n";
      else
        text += c;
    }
    return text + "\"";
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ","));
  }
};

}  // namespace

std::string print(const Attrs& attrs) {
  if (attrs.empty()) return "";
  std::string text = "{";
  for (const auto& [name, value] : attrs.items()) {
    if (text.size() > 1) text += ", ";
    text += name + "=" + std::visit(AttrPrinter(), value);
  }
  return text + "}";
}

namespace {

std::string with_attrs(const Attrs& attrs) {
  return attrs.empty() ? "" : " " + print(attrs);
}
std::string with_role(std::string_view role) {
  return role.empty() ? "" : fmt::format(" {}", role);
}

}  // namespace

std::string print_declaration(const Value& value) {
  return fmt::format("{} %{}: {}{}{}", value.kind == Value::Kind::kInput ? "input" : "state", value.name,
                     to_string(value.type), with_role(name(value.role)), with_attrs(value.attrs));
}

std::string print_node(const Graph& graph, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& value = graph.values[node.outputs[i]];
    text += fmt::format("{}%{}: {}", i ? ", " : "", value.name, to_string(value.type));
  }
  text += fmt::format(" = {}(", node.op->name);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    text += (i ? ", %" : "%") + graph.values[node.inputs[i]].name;
  return text + ")" + with_attrs(node.attrs);
}

std::string print_results(const Graph& graph) {
  std::string text;
  for (const Update& update : graph.updates) {
    text +=
        fmt::format("update %{} <- %{}\n", graph.values[update.state].name, graph.values[update.value].name);
  }
  for (const Output& output : graph.outputs) {
    text += fmt::format("output {} = %{}{}\n", output.name, graph.values[output.value].name,
                        with_role(name(output.role)));
  }
  return text;
}

std::string print(const Graph& graph) {
  std::string text = graph.name.empty() ? "" : "graph " + graph.name + "\n";
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::kResult) text += print_declaration(value) + "\n";
  }
  for (const Node& node : graph.nodes) text += print_node(graph, node) + "\n";
  return text + print_results(graph);
}

}  // namespace trireme
