// Parsing of graphs: a small recursive-descent reader, one statement a line. The text may come from
// anywhere, so every size is bounded before it is used.
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/line_reader.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

class GraphReader {
 public:
  explicit GraphReader(const OpTable& ops) : ops_(ops) {}

  void line(std::string_view text) {
    LineReader reader(text);
    if (reader.done()) return;
    if (reader.take("graph "))
      graph_.name = reader.name();
    else if (reader.take("input "))
      declare(reader, Value::Kind::kInput);
    else if (reader.take("state "))
      declare(reader, Value::Kind::kState);
    else if (reader.take("update "))
      read_update(reader);
    else if (reader.take("output "))
      read_output(reader);
    else
      read_node(reader);
    reader.expect_end();
  }
  Graph take() { return std::move(graph_); }

 private:
  ValueId add(std::string name, TensorType type, Value::Kind kind, int node, Role role = Role::kNone,
              Attrs attrs = {}) {
    const ValueId id = static_cast<ValueId>(graph_.values.size());
    if (!ids_.emplace(name, id).second) throw_error("%{} is made twice", name);
    graph_.values.push_back({std::move(name), type, kind, node, role, std::move(attrs)});
    return id;
  }
  ValueId existing(const std::string& name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) throw_error("%{} is read before it is made", name);
    return found->second;
  }
  void declare(LineReader& reader, Value::Kind kind) {
    std::string name = reader.value_name();
    reader.expect(":");
    const TensorType type = reader.type();
    const std::string word = reader.word();
    const std::optional<Role> role = parse_role(word);
    if (!role) throw_error("'{}' is no role of a state or an input", word);
    add(std::move(name), type, kind, -1, *role, reader.attrs());
  }
  void read_update(LineReader& reader) {
    const ValueId state = existing(reader.value_name());
    reader.expect("<-");
    graph_.updates.push_back({state, existing(reader.value_name())});
  }
  void read_output(LineReader& reader) {
    std::string name = reader.name();
    reader.expect("=");
    const ValueId value = existing(reader.value_name());
    const std::string word = reader.word();
    const std::optional<OutputRole> role = parse_output_role(word);
    if (!role) throw_error("'{}' is no role of an output", word);
    graph_.outputs.push_back({std::move(name), value, *role});
  }
  // verify() would find this too, but cannot say in which line.
  void check_results(const Node& node, const std::vector<std::pair<std::string, TensorType>>& results) const {
    const std::vector<TensorType> types = infer_types(*node.op, graph_.types_of(node.inputs), node.attrs);
    if (types.size() != results.size())
      throw_error("[{}] makes {} results, but {} are named", node.op->name, types.size(), results.size());
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == results[i].second) continue;
      throw_error("[{}] makes {}, but %{} is said to be {}", node.op->name, to_string(types[i]),
                  results[i].first, to_string(results[i].second));
    }
  }
  void read_node(LineReader& reader) {
    std::vector<std::pair<std::string, TensorType>> results;
    do {
      std::string name = reader.value_name();
      reader.expect(":");
      results.emplace_back(std::move(name), reader.type());
    } while (reader.take(","));
    reader.expect("=");
    Node node{&ops_.at(reader.name()), {}, {}, {}};
    reader.expect("(");
    while (!reader.take(")")) {
      if (!node.inputs.empty()) reader.expect(",");
      node.inputs.push_back(existing(reader.value_name()));
    }
    node.attrs = reader.attrs();
    check_results(node, results);
    const int index = static_cast<int>(graph_.nodes.size());
    for (auto& [name, type] : results)
      node.outputs.push_back(add(std::move(name), type, Value::Kind::kResult, index));
    graph_.nodes.push_back(std::move(node));
  }

  const OpTable& ops_;
  Graph graph_;
  std::map<std::string, ValueId, std::less<>> ids_;
};

}  // namespace

Graph parse_graph(std::string_view text, const OpTable& ops) {
  GraphReader reader(ops);
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    try {
      reader.line(line);
    } catch (const Error& error) {
      throw_error("line {}: {}", number, error.what());
    }
  }
  Graph graph = reader.take();
  verify(graph);
  return graph;
}

}  // namespace trireme
