// Type inference and cost, both read off the index rule; the table of records.
#include "trireme/ir/op_record.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

DTypeRule rule_at(const std::vector<DTypeRule>& rules, size_t i) {
  return i < rules.size() ? rules[i] : DTypeRule::kFormat;
}

DType resolve(DTypeRule rule, DType format) {
  switch (rule) {
    case DTypeRule::kF32:
      return DType::f32;
    case DTypeRule::kI32:
      return DType::i32;
    case DTypeRule::kI64:
      return DType::i64;
    case DTypeRule::kU8:
      return DType::u8;
    case DTypeRule::kFormat:
    case DTypeRule::kAny:
      break;
  }
  return format;
}

// The format that the kFormat operands share: the dtype of the first of them.
DType shared_format(const OpRecord& op, const OpInstance& instance) {
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const DTypeRule rule = rule_at(op.inputs, i);
    if (rule == DTypeRule::kFormat || rule == DTypeRule::kAny) return instance.inputs[i].dtype;
  }
  return DType::f32;
}

void check_attributes(const OpRecord& op, const Attrs& attrs) {
  for (std::string_view name : op.numbers) {
    if (!attrs.has(name)) throw_error("[{}] attribute '{}' is missing; a number is expected", op.name, name);
    attrs.real(name);
  }
}

}  // namespace

std::vector<TensorType> infer_types(const OpRecord& op, const std::vector<TensorType>& inputs,
                                    const Attrs& attrs) {
  const OpInstance instance{op.name, inputs, attrs};
  check_attributes(op, attrs);
  const IndexRule rule = op.index(instance);
  const DType format = shared_format(op, instance);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DTypeRule expected = rule_at(op.inputs, i);
    if (expected != DTypeRule::kAny && inputs[i].dtype != resolve(expected, format)) {
      throw_error("[{}] input {} is {}, but {} is expected", op.name, i, to_string(inputs[i]),
                  name(resolve(expected, format)));
    }
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < rule.outputs.size(); ++i) {
    const DType dtype = op.output_dtype ? op.output_dtype(instance) : resolve(rule_at(op.outputs, i), format);
    types.push_back({dtype, rule.output_shape(static_cast<int>(i))});
    if (!has_possible_size(types.back().shape)) {
      throw_error("[{}] the result {} has more than 2^48 elements", op.name, to_string(types.back().shape));
    }
  }
  return types;
}

Cost cost_of(const OpRecord& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  return cost_of(op, inputs, infer_types(op, inputs, attrs), attrs);
}

Cost cost_of(const OpRecord& op, const std::vector<TensorType>& inputs,
             const std::vector<TensorType>& outputs, const Attrs& attrs) {
  if (op.memory == OpRecord::Memory::kShared) return {};
  const OpInstance instance{op.name, inputs, attrs};
  Cost cost;
  int64_t largest = 0;
  const auto count = [&](const TensorType& type) {
    cost.bytes += static_cast<double>(type.bytes());
    largest = std::max(largest, type.shape.elements());
  };
  for (const TensorType& type : inputs) count(type);
  for (const TensorType& type : outputs) count(type);
  cost.flops = op.flops ? op.flops(instance, op.index(instance)) : static_cast<double>(largest);
  return cost;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from
double bytes_sent(const OpRecord& op, const std::vector<TensorType>& inputs,
                  const std::vector<TensorType>& outputs, const Attrs& attrs) {
  if (!op.collective || !op.collective->sends()) return 0;
  const auto bytes = [](const std::vector<TensorType>& types) {
    double sum = 0;
    for (const TensorType& type : types) sum += static_cast<double>(type.bytes());
    return sum;
  };
  const int64_t ways = attrs.integer("ways");
  if (op.collective->kind == CollectiveKind::kShift)
    return bytes_sent(op.collective->kind, ways, bytes(inputs), bytes(inputs));
  // What is under way is what a start makes: several tensors packed in one.
  if (op.collective->phase == OpRecord::Collective::Phase::kStart)
    return bytes_sent(op.collective->kind, ways, bytes(outputs), bytes(outputs));
  if (op.collective->kind == CollectiveKind::kAllToAll) {
    // A rank keeps its own part of what it gives, which need be no larger or smaller than the others'.
    const auto dim = static_cast<int>(attrs.integer("to_dim"));
    const auto extent = [&](const std::vector<TensorType>& types) {
      return static_cast<double>(types[0].shape[dim]);
    };
    return bytes(inputs) - (extent(inputs) > 0 ? bytes(inputs) / extent(inputs) * extent(outputs) : 0);
  }
  return bytes_sent(op.collective->kind, ways, bytes(inputs), bytes(outputs));
}

void OpTable::add(OpRecord record) {
  const std::string name(record.name);
  const bool added = records_.try_emplace(name, std::move(record)).second;
  TRIREME_CHECK(added);
}

const OpRecord* OpTable::find(std::string_view name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : &found->second;
}

const OpRecord& OpTable::at(std::string_view name) const {
  const OpRecord* record = find(name);
  if (!record) {
    const std::string guess = nearest(name, names());
    throw_error("there is no op '{}'{}", name,
                guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
  }
  return *record;
}

std::vector<std::string> OpTable::names() const {
  std::vector<std::string> result;
  for (const auto& [name, record] : records_) result.push_back(name);
  return result;
}

}  // namespace trireme
