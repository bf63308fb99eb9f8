// What a kernel did wrong while the device computed. It shows at a later call, which has nothing to do with
// it, and the device is of no more use to this process.
#pragma once

#include <fmt/format.h>

#include <string>

#include "trireme/base/error.h"

namespace trireme {

// No DeviceError: the op at hand must not be named for it.
class DeviceFault : public Error {
 public:
  explicit DeviceFault(const std::string& words)
      : Error(fmt::format(
            "{}; it is of this op or of one before it: train.device=cuda_debug runs ops one by one "
            "and names it",
            words)),
        words_(words) {}
  const std::string& words() const { return words_; }  // the device's own

 private:
  std::string words_;
};

}  // namespace trireme
