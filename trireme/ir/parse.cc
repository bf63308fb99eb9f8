// Parsing of graphs: a small recursive-descent reader, one statement a line. The text may come from
// anywhere, so every size is bounded before it is used.
#include <cctype>
#include <charconv>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/builder.h"
#include "trireme/ir/text.h"
#include "trireme/ir/verify.h"

namespace trireme {
namespace {

class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) { skip(); }

  bool done() const { return at_ == line_.size() || line_[at_] == '#'; }
  bool take(std::string_view token) {
    if (!line_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    skip();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw_error("'{}' expected at '{}'", token, line_.substr(at_, 20));
  }
  // A name: letters, digits and the signs that Hugging Face and our own names use.
  std::string name() {
    const size_t begin = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) ||
                                  std::string_view("._~-/").find(line_[at_]) != std::string_view::npos))
      ++at_;
    if (at_ == begin) throw_error("a name expected at '{}'", line_.substr(at_, 20));
    std::string result(line_.substr(begin, at_ - begin));
    skip();
    return result;
  }
  std::string value_name() {
    if (at_ >= line_.size() || line_[at_] != '%')
      throw_error("a value (%name) expected at '{}'", line_.substr(at_, 20));
    ++at_;
    return name();
  }

  TensorType type() {
    const size_t begin = at_;
    while (at_ < line_.size() && std::isalnum(static_cast<unsigned char>(line_[at_]))) ++at_;
    const std::string_view text = line_.substr(begin, at_ - begin);
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype) throw_error("'{}' is no number format; f32, f16, bf16, f64, i64, i32 or u8 expected", text);
    TensorType result{*dtype, {}};
    for (int64_t extent : integers()) {
      if (extent < 0) throw_error("extent {} is negative", extent);
      if (result.shape.rank() == Shape::kMaxDims)
        throw_error("a tensor has at most {} dims, more are given", Shape::kMaxDims);
      result.shape.push_back(extent);
    }
    if (!has_possible_size(result.shape))
      throw_error("{} has more than 2^48 elements", to_string(result.shape));
    return result;
  }

  Attrs attrs() {
    Attrs result;
    if (!take("{")) return result;
    while (!take("}")) {
      if (!result.empty()) expect(",");
      const std::string key = name();
      expect("=");
      if (result.has(key)) throw_error("attribute '{}' is given twice", key);
      result.set(key, attr_value());
    }
    return result;
  }

 private:
  void skip() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> result;
    expect("[");
    while (!take("]")) {
      if (!result.empty()) expect(",");
      int64_t value = 0;
      const auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
      if (error != std::errc()) throw_error("an integer expected at '{}'", line_.substr(at_, 20));
      at_ = static_cast<size_t>(end - line_.data());
      skip();
      result.push_back(value);
    }
    return result;
  }

  AttrValue attr_value() {
    if (at_ < line_.size() && line_[at_] == '[') return integers();
    if (at_ < line_.size() && line_[at_] == '"') return quoted();
    const size_t begin = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) || line_[at_] == '.' ||
                                  line_[at_] == '-' || line_[at_] == '+'))
      ++at_;
    const std::string_view text = line_.substr(begin, at_ - begin);
    skip();
    const char* last = text.data() + text.size();
    int64_t integer = 0;
    if (const auto [end, error] = std::from_chars(text.data(), last, integer);
        error == std::errc() && end == last && !text.empty())
      return integer;
    double real = 0;
    if (const auto [end, error] = std::from_chars(text.data(), last, real);
        error == std::errc() && end == last && !text.empty())
      return real;
    throw_error("'{}' is no attribute value; a number, \"text\" or [integers] expected", text);
  }

  std::string quoted() {
    std::string result;
    for (++at_; at_ < line_.size() && line_[at_] != '"'; ++at_) {
      if (line_[at_] == '\\' && at_ + 1 < line_.size()) {
        ++at_;
        result += line_[at_] == 'n' ? '\n' : line_[at_];
      } else {
        result += line_[at_];
      }
    }
    if (at_ == line_.size()) throw_error("a text is not closed by '\"'");
    ++at_;
    skip();
    return result;
  }

  std::string_view line_;
  size_t at_ = 0;
};

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
    if (!reader.done()) throw_error("text left over at the end of the statement");
  }
  Graph take() { return std::move(graph_); }

 private:
  ValueId add(std::string name, TensorType type, Value::Kind kind, int node, Attrs attrs = {}) {
    const ValueId id = static_cast<ValueId>(graph_.values.size());
    if (!ids_.emplace(name, id).second) throw_error("%{} is made twice", name);
    graph_.values.push_back({std::move(name), type, kind, node, std::move(attrs)});
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
    add(std::move(name), type, kind, -1, reader.attrs());
  }
  void read_update(LineReader& reader) {
    const ValueId state = existing(reader.value_name());
    reader.expect("<-");
    graph_.updates.push_back({state, existing(reader.value_name())});
  }
  void read_output(LineReader& reader) {
    std::string name = reader.name();
    reader.expect("=");
    graph_.outputs.push_back({std::move(name), existing(reader.value_name())});
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
