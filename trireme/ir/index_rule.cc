// Parsing of index notation and binding of its indices to the extents of an instance.
#include "trireme/ir/index_rule.h"

#include <algorithm>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

constexpr std::string_view kEllipsis = "…";

// One operand as written: its name and, per written dim, the names in it; `many` for `b…`.
struct WrittenDim {
  std::vector<std::string> names;
  bool many = false;
};
struct WrittenOperand {
  std::string name;
  std::vector<WrittenDim> dims;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<WrittenOperand> operands() {
    std::vector<WrittenOperand> result;
    for (skip(); at_ < text_.size() && text_[at_] != '-'; skip()) result.push_back(operand());
    return result;
  }
  void arrow() {
    TRIREME_CHECK(text_.substr(at_, 2) == "->");
    at_ += 2;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '\''))
      ++at_;
    TRIREME_CHECK(at_ > begin);
    return std::string(text_.substr(begin, at_ - begin));
  }
  WrittenOperand operand() {
    WrittenOperand result{name(), {}};
    TRIREME_CHECK(text_[at_] == '[');
    ++at_;
    for (skip(); text_[at_] != ']'; skip()) {
      if (text_[at_] == '(') {
        ++at_;
        WrittenDim dim;
        for (skip(); text_[at_] != ')'; skip()) dim.names.push_back(name());
        ++at_;
        result.dims.push_back(std::move(dim));
      } else {
        WrittenDim dim{{name()}, false};
        if (text_.substr(at_, kEllipsis.size()) == kEllipsis) {
          at_ += kEllipsis.size();
          dim.many = true;
        }
        result.dims.push_back(std::move(dim));
      }
    }
    ++at_;
    return result;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// How many indices each `b…` stands for, from the ranks of the inputs.
std::map<std::string, int> resolve_ellipses(const OpInstance& instance, std::string_view text,
                                            const std::vector<WrittenOperand>& inputs) {
  std::map<std::string, int> counts;
  for (size_t round = 0; round < inputs.size(); ++round) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::optional<std::string> unknown;
      int open = 0, known = 0;
      for (const WrittenDim& dim : inputs[i].dims) {
        if (!dim.many)
          ++known;
        else if (counts.contains(dim.names[0]))
          known += counts[dim.names[0]];
        else
          ++open, unknown = dim.names[0];
      }
      const int rank = instance.shape(static_cast<int>(i)).rank();
      if (open == 1 && rank >= known) counts[*unknown] = rank - known;
      if ((open == 1 && rank < known) || (open == 0 && rank != known)) {
        throw_error("[{}] {} has {} dims ({}), but the op is {}", instance.op, inputs[i].name, rank,
                    to_string(instance.inputs[i]), text);
      }
    }
  }
  return counts;
}

}  // namespace

DType OpInstance::format() const {
  for (const TensorType& type : inputs) {
    if (is_float(type.dtype)) return type.dtype;
  }
  return DType::f32;
}

IndexRule rule(const OpInstance& instance, std::string_view text) {
  Scanner scanner(text);
  const std::vector<WrittenOperand> inputs = scanner.operands();
  scanner.arrow();
  const std::vector<WrittenOperand> outputs = scanner.operands();
  if (inputs.size() != instance.inputs.size()) {
    throw_error("[{}] {} inputs given, {} expected: {}", instance.op, instance.inputs.size(), inputs.size(),
                text);
  }
  const std::map<std::string, int> counts = resolve_ellipses(instance, text, inputs);

  IndexRule result;
  const auto index_named = [&](const std::string& name) {
    for (size_t i = 0; i < result.indices.size(); ++i) {
      if (result.indices[i].name == name) return static_cast<int>(i);
    }
    result.indices.push_back({.name = name});
    return static_cast<int>(result.indices.size()) - 1;
  };
  const auto expand = [&](const WrittenOperand& written) {
    IndexRule::Operand operand;
    for (const WrittenDim& dim : written.dims) {
      if (dim.many) {
        const auto count = counts.find(dim.names[0]);
        TRIREME_CHECK(count != counts.end());
        for (int i = 0; i < count->second; ++i)
          operand.push_back({index_named(dim.names[0] + std::to_string(i))});
      } else {
        IndexRule::Dim indices;
        for (const std::string& name : dim.names) indices.push_back(index_named(name));
        operand.push_back(std::move(indices));
      }
    }
    return operand;
  };
  for (const WrittenOperand& written : inputs) result.inputs.push_back(expand(written));
  for (const WrittenOperand& written : outputs) result.outputs.push_back(expand(written));

  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < result.inputs[i].size(); ++d) {
      const IndexRule::Dim& dim = result.inputs[i][d];
      if (dim.size() != 1) continue;  // the extents of a shared dim come from other operands or size()
      Index& index = result.indices[dim[0]];
      const int64_t extent = instance.shape(static_cast<int>(i))[static_cast<int>(d)];
      if (index.extent >= 0 && index.extent != extent) {
        throw_error("[{}] dim {} of {} is {} ({}), but {} is {} in {}", instance.op, d, inputs[i].name,
                    extent, to_string(instance.inputs[i]), index.name, index.extent, text);
      }
      index.extent = extent;
    }
  }
  for (const IndexRule::Operand& output : result.outputs) {
    if (output.size() > Shape::kMaxDims) {
      throw_error("[{}] a result would have {} dims, at most {} are possible: {}", instance.op, output.size(),
                  Shape::kMaxDims, text);
    }
  }
  return result;
}

std::vector<int> IndexRule::matching(std::string_view names) const {
  std::vector<int> found;
  for (const std::string& name : trireme::split(names, ' ')) {
    const bool many = name.ends_with(kEllipsis);
    const std::string stem = many ? name.substr(0, name.size() - kEllipsis.size()) : name;
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::string& candidate = indices[i].name;
      const bool numbered = candidate.size() > stem.size() && candidate.starts_with(stem) &&
                            std::all_of(candidate.begin() + static_cast<int64_t>(stem.size()),
                                        candidate.end(), [](unsigned char c) { return std::isdigit(c); });
      if (many ? numbered : candidate == stem) found.push_back(static_cast<int>(i));
    }
  }
  return found;
}

IndexRule& IndexRule::whole(std::string_view names) {
  for (int i : matching(names)) indices[i].split = Index::Split::kWhole;
  return *this;
}

IndexRule& IndexRule::max(std::string_view names) {
  for (int i : matching(names)) indices[i].combine = Index::Combine::kMax;
  return *this;
}

IndexRule& IndexRule::size(std::string_view name, int64_t extent) {
  const std::vector<int> found = matching(name);
  TRIREME_CHECK(found.size() == 1u);
  indices[found[0]].extent = extent;
  return *this;
}

int IndexRule::dim_of(const Operand& operand, int index) {
  for (size_t d = 0; d < operand.size(); ++d) {
    if (std::ranges::find(operand[d], index) != operand[d].end()) return static_cast<int>(d);
  }
  return -1;
}

bool IndexRule::may_split(int index) const {
  return indices[index].split == Index::Split::kAllowed;
}

Shape IndexRule::output_shape(int output) const {
  Shape shape;
  for (const Dim& dim : outputs.at(output)) {
    int64_t extent = 1;
    for (int i : dim) {
      TRIREME_CHECK(indices[i].extent >= 0);
      extent *= indices[i].extent;
    }
    shape.push_back(extent);
  }
  return shape;
}

double IndexRule::volume() const {
  double product = 1;
  for (const Index& index : indices) product *= static_cast<double>(index.extent);
  return product;
}

std::string IndexRule::text(std::string_view op) const {
  std::string result(op);
  const auto add = [&](const Operand& operand) {
    result += " [";
    for (size_t d = 0; d < operand.size(); ++d) {
      if (d) result += ' ';
      if (operand[d].size() != 1) result += '(';
      for (size_t i = 0; i < operand[d].size(); ++i) result += (i ? " " : "") + indices[operand[d][i]].name;
      if (operand[d].size() != 1) result += ')';
    }
    result += ']';
  };
  for (const Operand& operand : inputs) add(operand);
  result += " ->";
  for (const Operand& operand : outputs) add(operand);
  return result;
}

}  // namespace trireme
