#include "trireme/cli/progress.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

const Progress::Options kOptions{.steps = 2000, .rate_unit = "tok/s"};
const StepMetrics kStep{.step = 120,
                        .loss = 3.25,
                        .lr = 1e-3,
                        .grad_norm = 0.5,
                        .samples_per_second = 12345,
                        .step_seconds = 0.5,
                        .comm_seconds = 0.05,
                        .peak_bytes = size_t{3} << 20,
                        .mfu = 0.5};

TEST(Progress, SaysAllOfAStep) {
  EXPECT_EQ(Progress(kOptions).describe(kStep),
            "step 120/2000  loss 3.2500  lr 1.00e-03  grad 0.500  12345 tok/s  MFU 50.0%  mem 3.0 MiB  "
            "comm 10.0%  ETA 0s");
}

TEST(Progress, FitsTheTerminalAndKeepsWhatMattersMost) {
  const Progress progress(kOptions);
  const std::string whole = progress.describe(kStep);
  for (int columns = 1; columns <= 200; ++columns)
    EXPECT_LE(progress.describe(kStep, columns).size(), static_cast<size_t>(columns));
  EXPECT_EQ(progress.describe(kStep, static_cast<int>(whole.size())), whole);
  EXPECT_EQ(progress.describe(kStep, 80),
            "step 120/2000  loss 3.2500  grad 0.500  12345 tok/s  MFU 50.0%  ETA 0s");
  EXPECT_EQ(progress.describe(kStep, 40), "step 120/2000  loss 3.2500  ETA 0s");
  EXPECT_EQ(progress.describe(kStep, 20), "step 120/2000");
  EXPECT_EQ(progress.describe(kStep, 4), "step");
}

TEST(Progress, LinesArePlain) {
  ::testing::internal::CaptureStdout();
  Progress progress(kOptions);
  progress.step(kStep);
  progress.note("saved it");
  progress.finish();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), progress.describe(kStep) + "\nsaved it\n");
}

}  // namespace
}  // namespace trireme::cli
