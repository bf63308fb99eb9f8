// The closed forms against the printed tables of the papers.
#include "tests/support/memory_forms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme::sim {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// ZeRO, Table 1: GB of model states of a rank, for 7.5B, 128B and 1T parameters, each with the optimizer's
// states, then gradients, then weights shared.
TEST(MemoryForms, ModelStatesOfZero) {
  constexpr double kParameters[] = {7.5e9, 128e9, 1e12};
  constexpr StateSharing kSharing[] = {StateSharing::kOptimizer, StateSharing::kGradients,
                                       StateSharing::kWeights};
  struct Row {
    int64_t ranks;
    const char* cells[9];
  };
  constexpr Row kRows[] = {
      {1, {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"}},
      {4, {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"}},
      {16, {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"}},
      {64, {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"}},
      {256, {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"}},
      {1024, {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"}},
  };
  int cells = 0;
  for (const Row& row : kRows) {
    for (int c = 0; c < 9; ++c, ++cells) {
      const std::string printed = row.cells[c];
      const size_t point = printed.find('.');
      const int digits = point == std::string::npos ? 0 : static_cast<int>(printed.size() - point - 1);
      const double gb = model_state_bytes(kParameters[c / 3], kSharing[c % 3], row.ranks) / 1e9;
      // The paper rounds some cells and cuts others off: within one of the last digit, whichever it did.
      const double unit = std::pow(10.0, -digits);
      const bool rounded = fmt::format("{:.{}f}", gb + 1e-9, digits) == printed;
      const bool cut = fmt::format("{:.{}f}", std::floor(gb / unit + 1e-9) * unit, digits) == printed;
      EXPECT_TRUE(rounded || cut) << row.ranks << " ranks, column " << c << ": " << gb << ", printed "
                                  << printed;
    }
  }
  EXPECT_EQ(cells, 54);
}

TEST(MemoryForms, SixteenBytesAParameter) {
  for (const auto& [billions, gb] : {std::pair(0.32, 5.12), {1.5, 24.0}, {17.2, 275.2}, {175.0, 2800.0}})
    EXPECT_NEAR(model_state_bytes(billions * 1e9, StateSharing::kNone, 1) / 1e9, gb, 1e-9);
}

// PTD-P, Table 1.
struct Published {
  double billions;
  int64_t heads, hidden, layers, batch;
  double flops;
};
constexpr Published kRows[] = {
    {1.7, 24, 2304, 24, 512, 1.546683e16},       {3.6, 32, 3072, 30, 512, 3.265550e16},
    {7.5, 32, 4096, 36, 512, 6.718456e16},       {18.4, 48, 6144, 40, 1024, 3.248397e17},
    {39.1, 64, 8192, 48, 1536, 1.021226e18},     {76.1, 80, 10240, 60, 1792, 2.302047e18},
    {145.6, 96, 12288, 80, 2304, 5.641682e18},   {310.1, 128, 16384, 96, 2160, 1.119401e19},
    {529.6, 128, 20480, 105, 2520, 2.221594e19}, {1008.0, 160, 25600, 128, 3072, 5.139051e19},
};

TEST(MemoryForms, ParametersAndFlopsOfPtdp) {
  for (const Published& row : kRows) {
    const Transformer model{row.layers, row.hidden, row.heads, 51200, 2048};
    // 18.45 is printed as 18.4.
    EXPECT_NEAR(parameters_of(model) / 1e9, row.billions, 0.0501) << row.billions;
    EXPECT_NEAR(flops_with_recomputation(model, row.batch) / row.flops, 1, 1e-6) << row.billions;
  }
}

// Korthikanti et al., Figures 1 and 7, of models with 8 ways of tensor parallelism.
TEST(MemoryForms, ActivationsOfTheFirstStage) {
  struct Row {
    int64_t heads, hidden, layers, stages, microbatch, chunks;
    double baseline_gib, sequence_selective_gib;
    double sequence, selective, both, full;  // in % of the baseline, read off a figure: to 0.15 points
  };
  constexpr Row kModels[] = {
      {64, 6144, 48, 1, 4, 1, 59.25, 9.5625, 66.84, 49.42, 16.18, 7.64},
      {96, 12288, 96, 8, 1, 3, 66.84375, 12.3515625, 62.04, 56.53, 18.49, 8.71},
      {128, 20480, 105, 35, 1, 3, 114.0234375, 23.076171875, 58.31, 62.04, 20.27, 9.42},
      {160, 25600, 128, 64, 1, 1, 131.25, 26.5625, 58.31, 62.04, 20.27, 9.42},
  };
  for (const Row& row : kModels) {
    SCOPED_TRACE(row.hidden);
    const Transformer model{row.layers, row.hidden, row.heads, 51200, 2048};
    const auto gib = [&](ActivationPlan::Sequence sequence, Kept kept) {
      return first_stage_activation_bytes(model, {row.microbatch, 8, sequence, kept}, row.stages,
                                          row.chunks) /
             kGiB;
    };
    using enum ActivationPlan::Sequence;
    const double baseline = gib(kWhole, Kept::kAll);
    EXPECT_DOUBLE_EQ(baseline, row.baseline_gib);
    EXPECT_DOUBLE_EQ(gib(kSplit, Kept::kAllButAttention), row.sequence_selective_gib);
    EXPECT_NEAR(100 * gib(kSplit, Kept::kAll) / baseline, row.sequence, 0.15);
    EXPECT_NEAR(100 * gib(kWhole, Kept::kAllButAttention) / baseline, row.selective, 0.15);
    EXPECT_NEAR(100 * gib(kSplit, Kept::kAllButAttention) / baseline, row.both, 0.15);
    // What is kept of every layer is its input, whole on each rank.
    EXPECT_NEAR(100 * gib(kWhole, Kept::kInputs) / baseline, row.full, 0.15);
  }
}

}  // namespace
}  // namespace trireme::sim
