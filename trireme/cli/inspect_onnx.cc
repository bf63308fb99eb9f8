// `trireme inspect onnx`: of an ONNX file, what it computes and whether it can be trained here; of a folder
// of test cases, which pass. With --document, the tables of docs/onnx.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/onnx_cases.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/onnx/import.h"

namespace trireme::cli {
namespace {

std::string one_onnx_value(const onnx::ValueEntry& value) {
  std::string dims = value.dims ? "" : "unknown rank";
  for (size_t d = 0; value.dims && d < value.dims->size(); ++d) {
    const std::optional<int64_t>& extent = (*value.dims)[d];
    dims += fmt::format("{}{}", d ? "," : "", extent ? std::to_string(*extent) : "?");
  }
  return fmt::format("{} {}[{}]", printable(value.name), type_name(value.type), dims);
}

int print_onnx_file(const std::string& path) {
  const std::shared_ptr<const onnx::File> file = onnx::read_file(path);
  fmt::print("{}: opset {}, {} nodes, {} initializers\n", path, file->opset, file->nodes.size(),
             file->initializers.size());
  for (const onnx::ValueEntry& input : file->inputs) fmt::print("  input  {}\n", one_onnx_value(input));
  for (const onnx::ValueEntry& output : file->outputs) fmt::print("  output {}\n", one_onnx_value(output));
  const std::vector<std::string> imported = onnx::imported_ops();
  std::map<std::string, int> counts;
  for (const onnx::NodeEntry& node : file->nodes) ++counts[node.op];
  for (const auto& [op, count] : counts) {
    const bool known = std::ranges::find(imported, op) != imported.end();
    fmt::print("  {:>5} {}{}\n", count, printable(op), known ? "" : "  (can not be imported)");
  }
  return kOk;
}

std::string_view outcome_name(bench::OnnxCase::Outcome outcome) {
  constexpr std::string_view kNames[] = {"passes", "folds", "refused", "WRONG"};
  return kNames[static_cast<int>(outcome)];
}

}  // namespace

int inspect_onnx(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  bool document = false;
  CLI::App app(
      "Prints the inputs, outputs and ops of an ONNX file. Of folders of ONNX's test cases, runs each and says "
      "whether it passes (computed by kernels), folds (known at import), is refused, or is wrong.",
      "trireme inspect onnx");
  app.add_option("path", paths, "an ONNX file, or folders of test cases")->required();
  app.add_flag("--document", document, "print the tables of docs/onnx.md instead of a line for each case");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  if (!std::filesystem::is_directory(paths[0])) return print_onnx_file(paths[0]);

  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<bench::OnnxCase> cases;
  bool wrong = false;
  for (const std::string& path : paths) {
    for (const std::string& folder : bench::find_onnx_cases(path)) {
      const bench::OnnxCase& one = cases.emplace_back(bench::run_onnx_case(folder, *device));
      wrong |= one.outcome == bench::OnnxCase::Outcome::kWrong;
      if (!document)
        fmt::print("{:<8} {:<60} {}\n", outcome_name(one.outcome), one.name, printable(one.message));
    }
  }
  if (document) fmt::print("{}", bench::onnx_coverage(cases));
  return wrong ? kDiffers : kOk;
}

}  // namespace trireme::cli
