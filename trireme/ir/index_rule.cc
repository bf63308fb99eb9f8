// Parsing of index notation and binding of its indices to the extents of an instance.
#include "trireme/ir/index_rule.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

constexpr std::string_view kEllipsis = "…";

class Scanner {
 public:
  Scanner(std::string_view text, WrittenRule& rule) : text_(text), rule_(rule) {}

  std::vector<WrittenRule::Operand> operands() {
    std::vector<WrittenRule::Operand> result;
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
  std::string_view name() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '\''))
      ++at_;
    TRIREME_CHECK(at_ > begin);
    return text_.substr(begin, at_ - begin);
  }
  int number(std::string_view name) {
    const auto number = std::ranges::find(rule_.names, name) - rule_.names.begin();
    if (number == std::ssize(rule_.names)) rule_.names.emplace_back(name);
    return static_cast<int>(number);
  }
  WrittenRule::Operand operand() {
    WrittenRule::Operand result{std::string(name()), {}};
    TRIREME_CHECK(text_[at_] == '[');
    ++at_;
    for (skip(); text_[at_] != ']'; skip()) {
      WrittenRule::Dim& dim = result.dims.emplace_back();
      if (text_[at_] == '(') {
        ++at_;
        for (skip(); text_[at_] != ')'; skip()) dim.names.push_back(number(name()));
        ++at_;
      } else {
        dim.names.push_back(number(name()));
        dim.many = text_.substr(at_, kEllipsis.size()) == kEllipsis;
        if (dim.many) at_ += kEllipsis.size();
      }
    }
    ++at_;
    return result;
  }

  std::string_view text_;
  WrittenRule& rule_;
  size_t at_ = 0;
};

constexpr int kUnknown = -1;

// How many indices each `b…` stands for, by the number of its name, from the ranks of the inputs.
std::vector<int> resolve_ellipses(const OpInstance& instance, const WrittenRule& written) {
  std::vector<int> counts(written.names.size(), kUnknown);
  for (size_t round = 0; round < written.inputs.size(); ++round) {
    bool resolved = true;
    for (size_t i = 0; i < written.inputs.size(); ++i) {
      int open = 0, known = 0, unknown = 0;
      for (const WrittenRule::Dim& dim : written.inputs[i].dims) {
        if (!dim.many)
          ++known;
        else if (counts[dim.names[0]] != kUnknown)
          known += counts[dim.names[0]];
        else
          ++open, unknown = dim.names[0];
      }
      const int rank = instance.shape(static_cast<int>(i)).rank();
      if (open == 1 && rank >= known) counts[unknown] = rank - known;
      if ((open == 1 && rank < known) || (open == 0 && rank != known)) {
        throw_error("[{}] {} has {} dims ({}), but the op is {}", instance.op, written.inputs[i].name, rank,
                    to_string(instance.inputs[i]), written.text);
      }
      resolved = resolved && open == 0;
    }
    if (resolved) break;
  }
  return counts;
}

}  // namespace

WrittenRule::WrittenRule(std::string_view given) : text(given) {
  Scanner scanner(given, *this);
  inputs = scanner.operands();
  scanner.arrow();
  outputs = scanner.operands();
}

DType OpInstance::format() const {
  for (const TensorType& type : inputs) {
    if (is_float(type.dtype)) return type.dtype;
  }
  return DType::f32;
}

IndexRule rule(const OpInstance& instance, const WrittenRule& written) {
  if (written.inputs.size() != instance.inputs.size()) {
    throw_error("[{}] {} inputs given, {} expected: {}", instance.op, instance.inputs.size(),
                written.inputs.size(), written.text);
  }
  const std::vector<int> counts = resolve_ellipses(instance, written);

  IndexRule result;
  std::vector<int> numbers(written.names.size(), kUnknown);  // of the first index of each name
  const auto first_index = [&](int name, int count, bool numbered) {
    if (numbers[name] != kUnknown) return numbers[name];
    numbers[name] = static_cast<int>(result.indices.size());
    for (int i = 0; i < count; ++i) {
      result.indices.push_back(
          {.name = numbered ? written.names[name] + std::to_string(i) : written.names[name]});
    }
    return numbers[name];
  };
  const auto expand = [&](const WrittenRule::Operand& operand) {
    IndexRule::Operand dims;
    dims.reserve(operand.dims.size());
    for (const WrittenRule::Dim& dim : operand.dims) {
      if (dim.many) {
        const int count = counts[dim.names[0]];
        TRIREME_CHECK(count != kUnknown);
        const int first = first_index(dim.names[0], count, true);
        for (int i = 0; i < count; ++i) dims.push_back({first + i});
      } else {
        IndexRule::Dim& indices = dims.emplace_back();
        for (int name : dim.names) indices.push_back(first_index(name, 1, false));
      }
    }
    return dims;
  };
  for (const WrittenRule::Operand& operand : written.inputs) result.inputs.push_back(expand(operand));
  for (const WrittenRule::Operand& operand : written.outputs) result.outputs.push_back(expand(operand));

  for (size_t i = 0; i < written.inputs.size(); ++i) {
    for (size_t d = 0; d < result.inputs[i].size(); ++d) {
      const IndexRule::Dim& dim = result.inputs[i][d];
      if (dim.size() != 1) continue;  // the extents of a shared dim come from other operands or size()
      Index& index = result.indices[dim[0]];
      const int64_t extent = instance.shape(static_cast<int>(i))[static_cast<int>(d)];
      if (index.extent >= 0 && index.extent != extent) {
        throw_error("[{}] dim {} of {} is {} ({}), but {} is {} in {}", instance.op, d,
                    written.inputs[i].name, extent, to_string(instance.inputs[i]), index.name, index.extent,
                    written.text);
      }
      index.extent = extent;
    }
  }
  for (const IndexRule::Operand& output : result.outputs) {
    if (output.size() > Shape::kMaxDims) {
      throw_error("[{}] a result would have {} dims, at most {} are possible: {}", instance.op, output.size(),
                  Shape::kMaxDims, written.text);
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
