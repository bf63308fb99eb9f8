// Nothing about an op is implied by absence: every record states its index rule and its gradient or why it
// has none, has a case and a kernel, and stands in docs/ops.md; and no case, kernel or line of the document
// is about an op that does not exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "trireme/bench/cases/op_case.h"
#include "trireme/kernels/kernel.h"
#include "trireme/ops/attributes.h"
#include "trireme/ops/table.h"

namespace trireme::testing {
namespace {

using namespace bench;  // the cases

std::set<std::string> op_names() {
  const std::vector<std::string> names = ops().names();
  return {names.begin(), names.end()};
}

TEST(Completeness, EveryRecordStatesRuleAndGradient) {
  for (const std::string& name : ops().names()) {
    const OpRecord& record = ops().at(name);
    EXPECT_NE(record.index, nullptr) << name;
    if (const auto* none = std::get_if<NotDifferentiable>(&record.gradient)) {
      EXPECT_GT(none->reason.size(), 10u) << name;
      EXPECT_NE(none->reason, "not stated") << name;
    } else {
      EXPECT_NE(std::get<GradientRule>(record.gradient), nullptr) << name;
    }
  }
}

// Of the ops that models are made of, so that a misspelt one is noticed (Network::op).
TEST(Completeness, AttributesAreKnown) {
  for (const std::string& name : ops().names()) {
    const OpRecord& record = ops().at(name);
    if (!std::holds_alternative<GradientRule>(record.gradient) || record.collective) continue;
    EXPECT_TRUE(has_known_attributes(name)) << name;
  }
  for (const OpCase& one : all_cases())
    EXPECT_NO_THROW(check_attributes(one.op, one.attrs)) << case_name(one);
}

TEST(Completeness, EveryOpHasACaseAndEveryCaseAnOp) {
  std::set<std::string> with_case, labels;
  for (const OpCase& one : all_cases()) {
    with_case.insert(one.op);
    EXPECT_TRUE(labels.insert(case_name(one)).second) << case_name(one) << " is there twice";
  }
  // Collectives need several ranks: tests/parity/plan_test.cc.
  std::set<std::string> alone;
  for (const std::string& name : op_names()) {
    if (!ops().at(name).collective) alone.insert(name);
  }
  EXPECT_EQ(with_case, alone);
}

TEST(Completeness, EveryDifferentiableOpHasAGradientCase) {
  std::set<std::string> checked;
  for (const OpCase& one : all_cases()) {
    if (one.finite_differences == Differentiable::kYes) checked.insert(one.op);
  }
  for (const std::string& name : ops().names()) {
    if (std::holds_alternative<GradientRule>(ops().at(name).gradient)) {
      EXPECT_TRUE(checked.contains(name)) << name;
    }
  }
}

TEST(Completeness, EveryOpHasACpuKernelInEveryFormat) {
  for (const std::string& name : ops().names()) {
    const OpRecord& record = ops().at(name);
    if (record.memory == OpRecord::Memory::kShared) continue;  // nothing to compute
    for (DType format : {DType::f32, DType::bf16, DType::f16})
      EXPECT_NE(cpu_kernels().find(name, format), nullptr) << name << " in " << format;
  }
}

TEST(Completeness, EveryCpuKernelBelongsToAnOp) {
  for (const auto& [key, kernel] : cpu_kernels().all())
    EXPECT_NE(ops().find(key.first), nullptr) << key.first << " in " << key.second;
}

// The names in backticks in the first column of the tables.
TEST(Completeness, TheDocumentListsEveryOpAndNoOther) {
  std::ifstream file(TRIREME_SOURCE_DIR "/docs/ops.md");
  ASSERT_TRUE(file) << "docs/ops.md cannot be read";
  const std::regex row("^\\| `([a-z0-9_ ]+)` \\|.*");
  const std::regex word("[a-z0-9_]+");
  std::set<std::string> documented;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    const std::string names = match[1];
    for (std::sregex_iterator it(names.begin(), names.end(), word), end; it != end; ++it)
      EXPECT_TRUE(documented.insert(it->str()).second) << it->str() << " is there twice";
  }
  EXPECT_EQ(documented, op_names());
}

}  // namespace
}  // namespace trireme::testing
