// See write_json.h.
#include "trireme/cli/write_json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme::cli {

void write_json(const std::string& path, const nlohmann::ordered_json& list) {
  std::ofstream out(path, std::ios::binary);
  out << list.dump(2) << "\n";
  out.close();
  if (!out) throw_error("{}: cannot write the results: {}", path, std::strerror(errno));
}

}  // namespace trireme::cli
