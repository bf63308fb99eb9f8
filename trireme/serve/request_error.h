// A request that is not answered, and what its client is told.
#pragma once

#include <string>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::serve {

class RequestError : public Error {
 public:
  // `param`: the key of the request that is wrong, where it is one.
  RequestError(int http_status, std::string error_code, const std::string& message, std::string param = "")
      : Error(message), status(http_status), code(std::move(error_code)), parameter(std::move(param)) {}

  int status;
  std::string code;       // for programs: "rate_limit_exceeded"
  std::string parameter;  // "" where it is about none
};

}  // namespace trireme::serve
