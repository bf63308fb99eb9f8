// See write_file.h.
#include "trireme/cli/write_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme::cli {

void write_file(const std::string& path, const std::string& text, std::string_view what) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw_error("{}: cannot write the {}: {}", path, what, std::strerror(errno));
}

void write_json(const std::string& path, const nlohmann::ordered_json& list) {
  write_file(path, list.dump(2) + "\n", "results");
}

}  // namespace trireme::cli
