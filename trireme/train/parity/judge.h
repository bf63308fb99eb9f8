// Compares tensors with their references, each element within what rounding may do to it, and combines all
// comparisons into one verdict.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/train/parity/reference.h"

namespace trireme::parity {

enum class Verdict { kEqual, kRounding, kBug, kRefused };
std::string_view name(Verdict verdict);  // "equal", …

struct Result {
  Verdict verdict = Verdict::kEqual;
  // Why it is refused; of a bug, the first tensor in program order that is off, where and by how much.
  std::string reason;
  struct Losses {
    double plan = 0, one_rank = 0;
  };
  std::vector<Losses> losses;  // per step
  int64_t tensors = 0;         // compared, over all steps
  double worst = 0;            // the largest difference, as a share of what rounding may do there
  std::string worst_tensor;
};

class Judge {
 public:
  // Of a program that has all states whole.
  explicit Judge(const Program& program) : program_(program) {}

  // Small differences beyond the bound are judged again with more samples.
  void compare(const std::string& when, const std::vector<std::string>& names, const States& expected,
               const States& found, const std::function<Bounds(Samples)>& bounds_of);

  bool is_bug() const { return result.verdict == Verdict::kBug; }
  void bug(std::string reason);  // the first reason is reported
  void raise(Verdict verdict) { result.verdict = std::max(result.verdict, verdict); }

  Result result;

 private:
  // Of one tensor: where it is off most, as a share of what rounding may do there.
  struct Difference {
    double share = 0, bound = 0;
    int64_t element = 0, beyond = 0;
  };
  static Difference difference(const std::vector<float>& expected, const std::vector<float>& found,
                               const std::vector<float>& bounds);
  void note(const std::string& when, const std::string& tensor, const std::vector<float>& expected,
            const std::vector<float>& found, const Difference& worst);

  const Program& program_;
};

// The verdict of a plan in 16 bits: as it is, and of the same programs held in f32.
Result both_widths(Result as_it_is, const Result& widened);

}  // namespace trireme::parity
