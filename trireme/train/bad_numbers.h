// A step that can not stand: its loss or gradients are not finite, or its loss is a spike.
#pragma once

#include "trireme/base/error.h"

namespace trireme {

// Thrown on all ranks of a step, with weights as they were before it.
class BadNumbers : public Error {
 public:
  enum class Kind { kNotFinite, kSpike };
  BadNumbers(Kind kind, const std::string& text) : Error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace trireme
