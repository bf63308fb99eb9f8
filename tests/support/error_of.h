// For tests of refusals: what the Error says that `body` throws, or "no error".
#pragma once

#include <string>

#include "trireme/base/error.h"

namespace trireme {

template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trireme
