// All cases that the ONNX project publishes, from the package libonnx-testdata: none gives wrong numbers,
// most pass, and docs/onnx.md says how many.
#include "trireme/bench/onnx_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace trireme::bench {
namespace {

constexpr const char* kOnnxTestData = "/usr/include/onnx/backend/test/data";
constexpr int kLeastOnnxPasses = 600;
constexpr size_t kDocumentedOnnxCases = 1072;  // those of Debian 12, which the page is about

TEST(OnnxCases, NoneIsWrong) {
  if (!std::filesystem::is_directory(kOnnxTestData))
    GTEST_SKIP()
        << "the package libonnx-testdata is not installed; scripts/install_packages.sh --tests installs it";
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<OnnxCase> cases;
  int passed = 0;
  for (const char* group : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    for (const std::string& folder : find_onnx_cases(std::string(kOnnxTestData) + "/" + group)) {
      const OnnxCase& one = cases.emplace_back(run_onnx_case(folder, *device));
      EXPECT_NE(one.outcome, OnnxCase::Outcome::kWrong) << one.name << ": " << one.message;
      if (one.outcome == OnnxCase::Outcome::kRefused) {
        EXPECT_NE(one.op, "") << one.name << ": " << one.message;
      }
      passed += one.outcome == OnnxCase::Outcome::kPasses;
    }
  }
  if (cases.size() != kDocumentedOnnxCases) return;
  EXPECT_GE(passed, kLeastOnnxPasses) << "computed by kernels";
  std::ifstream page(std::string(TRIREME_SOURCE_DIR) + "/docs/onnx.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_THAT(text, testing::HasSubstr(onnx_coverage(cases)))
      << "docs/onnx.md is out of date; it names the command that makes its tables";
}

}  // namespace
}  // namespace trireme::bench
