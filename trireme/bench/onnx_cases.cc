// See onnx_cases.h.
#include "trireme/bench/onnx_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/onnx/import.h"
#include "trireme/ops/table.h"
#include "trireme/program/program.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;
using Known = std::map<std::string, onnx::Tensor>;

// The tolerance of ONNX's own runner.
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

std::vector<uint8_t> bytes_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw_error("{}: it can not be opened; a tensor of a test case expected", path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Test data has bfloat16 as the bits of uint16; the model says what it is.
onnx::Tensor read_case_tensor(const fs::path& path, onnx::Type type) {
  const std::vector<uint8_t> bytes = bytes_of(path);
  onnx::StoredTensor tensor = onnx::parse_tensor(bytes, path.string());
  if (tensor.type == onnx::Type::kU16 && type == onnx::Type::kBf16) tensor.type = type;
  return tensor.decode();
}

// The tensors of a data set, under the names that the graph has for them.
Known read_case_tensors(const fs::path& set, const char* what, const std::vector<onnx::ValueEntry>& names) {
  Known tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].type == onnx::Type::kNone) throw_error("'{}' is no tensor", names[i].name);
    tensors.emplace(names[i].name, read_case_tensor(set / fmt::format("{}_{}.pb", what, i), names[i].type));
  }
  return tensors;
}

struct Imported {
  Graph graph;
  std::map<std::string, onnx::Value> outputs;
  std::map<std::string, std::vector<float>> states;
  std::set<std::string> inputs;  // of the graph, by kernels
};

std::vector<float> floats_of(const onnx::Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  for (int64_t i = 0; i < tensor.elements(); ++i) values[i] = static_cast<float>(tensor.real(i));
  return values;
}

Imported import_case(const onnx::File& file, const Known& inputs, const std::set<std::string>& known) {
  Imported result;
  Builder builder(ops(), "case");
  const auto state = [&](const std::string& name, const onnx::Tensor& tensor) {
    result.states.emplace(name, floats_of(tensor));
    return builder.state(name, {DType::f32, tensor.shape});
  };
  const onnx::Surroundings around{
      .parameter = [&](const onnx::StoredTensor& tensor) { return state(tensor.name, tensor.decode()); },
      .constant = state,
      .batch_norm = nullptr,
      .dropout = [](ValueId, double) -> ValueId {
        throw_error("it draws random numbers, which no two frameworks draw alike");
      }};
  onnx::Emitter emitter(builder, around);
  std::map<std::string, onnx::Value> given;
  for (const auto& [name, tensor] : inputs) {
    onnx::Value value = onnx::Emitter::known(tensor);
    if (tensor.type == onnx::Type::kF32 && !known.contains(name)) {
      value = emitter.computed(builder.input(name, {DType::f32, tensor.shape}));
      value.input = name;
      result.inputs.insert(name);
    }
    given.emplace(name, std::move(value));
  }
  std::vector<std::string> wanted;
  for (const onnx::ValueEntry& output : file.outputs) wanted.push_back(output.name);
  const std::map<std::string, onnx::Value> values = onnx::import_graph(file, emitter, given, wanted);
  for (const std::string& name : wanted) {
    const onnx::Value& value = values.at(name);
    result.outputs.emplace(name, value);
    if (!value.known) builder.output(name, emitter.id(value));
  }
  result.graph = builder.take();
  return result;
}

// Once more for each input that must be known.
Imported import_with_needed(const onnx::File& file, const Known& inputs) {
  std::set<std::string> known;
  for (;;) {
    try {
      return import_case(file, inputs, known);
    } catch (const onnx::ConstantNeeded& needed) {
      if (!known.insert(needed.input).second) throw;
    }
  }
}

std::string difference(const onnx::Tensor& found, const onnx::Tensor& expected) {
  if (found.shape != expected.shape)
    return fmt::format("{} instead of {}", to_string(found.shape), to_string(expected.shape));
  if (found.type != expected.type)
    return fmt::format("{} instead of {}", type_name(found.type), type_name(expected.type));
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = found.real(i), b = expected.real(i);
    const bool same = onnx::is_real(expected.type)
                          ? a == b || (std::isnan(a) && std::isnan(b)) ||
                                std::abs(a - b) <= kAbsolute + kRelative * std::abs(b)
                          : found.integers[i] == expected.integers[i];
    if (!same) return fmt::format("{} instead of {} at element {}", a, b, i);
  }
  return "";
}

// The first output that differs; "" where none does.
std::string run_case(Imported imported, const Known& inputs, const Known& expected, Device& device) {
  std::optional<Executor> executor;
  if (!imported.graph.outputs.empty()) {
    std::vector<StepSegment> segments;
    segments.emplace_back(std::move(imported.graph));
    executor.emplace(build_program(std::move(segments), workspace_query(device)), device);
    for (const auto& [name, values] : imported.states) {
      if (executor->program().find_state(name))
        executor->write_state(name, values.data(), values.size() * sizeof(float));
    }
    for (const std::string& name : imported.inputs) {
      const std::vector<float> values = floats_of(inputs.at(name));
      executor->set_input(0, name, values.data(), values.size() * sizeof(float));
    }
    executor->run(0);
  }
  for (const auto& [name, value] : imported.outputs) {
    onnx::Tensor found = value.known ? *value.known : onnx::zeros(value.type, value.shape);
    if (!value.known) {
      std::vector<float> numbers(value.shape.elements());
      executor->read_output(0, name, numbers.data(), numbers.size() * sizeof(float));
      for (size_t i = 0; i < numbers.size(); ++i)
        onnx::store(found, static_cast<int64_t>(i), static_cast<double>(numbers[i]));
    }
    if (const std::string problem = difference(found, expected.at(name)); !problem.empty())
      return fmt::format("output '{}': {}", name, problem);
  }
  return "";
}

}  // namespace

std::vector<std::string> find_onnx_cases(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw_error(
        "{}: no such folder; one with cases of ONNX expected, as the package libonnx-testdata has them",
        folder);
  std::vector<std::string> cases;
  for (fs::recursive_directory_iterator at(folder), end; at != end; ++at) {
    if (at->path().filename() == "model.onnx" &&
        fs::is_directory(at->path().parent_path() / "test_data_set_0"))
      cases.push_back(at->path().parent_path());
  }
  std::ranges::sort(cases);
  return cases;
}

OnnxCase run_onnx_case(const std::string& folder, Device& device) {
  const fs::path path = fs::path(folder).lexically_normal();
  OnnxCase result;
  result.name = (path.parent_path().filename() / path.filename()).string();
  try {
    const std::shared_ptr<const onnx::File> file = onnx::read_file(path / "model.onnx");
    std::set<std::string> ops;
    for (const onnx::NodeEntry& node : file->nodes) ops.insert(node.op);
    result.ops.assign(ops.begin(), ops.end());
    if (!result.ops.empty()) result.op = file->nodes[0].op;
    for (int set = 0; fs::is_directory(path / fmt::format("test_data_set_{}", set)); ++set) {
      const fs::path data = path / fmt::format("test_data_set_{}", set);
      const Known inputs = read_case_tensors(data, "input", file->inputs);
      const Known expected = read_case_tensors(data, "output", file->outputs);
      Imported imported = import_with_needed(*file, inputs);
      result.outcome =
          imported.graph.outputs.empty() ? OnnxCase::Outcome::kFolds : OnnxCase::Outcome::kPasses;
      result.message = run_case(std::move(imported), inputs, expected, device);
      if (!result.message.empty()) {
        result.outcome = OnnxCase::Outcome::kWrong;
        return result;
      }
    }
    result.op.clear();
  } catch (const onnx::Refusal& refusal) {
    result.outcome = OnnxCase::Outcome::kRefused;
    result.op = refusal.op;
    result.message = refusal.what();
  } catch (const Error& error) {
    result.outcome = OnnxCase::Outcome::kRefused;
    result.message = error.what();
  }
  return result;
}

std::string onnx_coverage(const std::vector<OnnxCase>& cases) {
  using Outcome = OnnxCase::Outcome;
  constexpr Outcome kOutcomes[] = {Outcome::kPasses, Outcome::kFolds, Outcome::kRefused, Outcome::kWrong};
  std::map<std::string, std::map<Outcome, int>> groups;
  std::map<std::string, int> refused;
  for (const OnnxCase& one : cases) {
    ++groups[one.name.substr(0, one.name.find('/'))][one.outcome];
    ++groups["all"][one.outcome];
    if (one.outcome == Outcome::kRefused) ++refused[one.op];
  }
  std::string text =
      "| cases | computed by kernels | folded | refused | wrong | all |\n|---|---|---|---|---|---|\n";
  const auto add_row = [&](const std::string& name) {
    text += fmt::format("| {} |", name);
    int all = 0;
    for (const Outcome outcome : kOutcomes) {
      all += groups[name][outcome];
      text += fmt::format(" {} |", groups[name][outcome]);
    }
    text += fmt::format(" {} |\n", all);
  };
  std::vector<std::string> names;
  for (const auto& [name, counts] : groups) names.push_back(name);
  for (const std::string& name : names) {
    if (name != "all") add_row(name);
  }
  add_row("all");
  std::vector<std::string> ops;
  for (const auto& [op, count] : refused) ops.push_back(fmt::format("`{}` {}", op, count));
  text += "\nRefused, by op: " + join(ops, ", ") + ".\n";
  std::vector<std::string> imported = onnx::imported_ops();
  for (std::string& op : imported) op = "`" + op + "`";
  text += "\nOps that can be imported: " + join(imported, ", ") + ".\n";
  return text;
}

}  // namespace trireme::bench
