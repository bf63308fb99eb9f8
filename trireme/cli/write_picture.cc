// See write_picture.h.
#include "trireme/cli/write_picture.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "trireme/base/error.h"

namespace trireme::cli {

void write_picture(const std::string& path, const std::string& svg) {
  std::ofstream out(path, std::ios::binary);
  out << svg;
  out.close();
  if (!out) throw_error("{}: cannot write the picture: {}", path, std::strerror(errno));
}

}  // namespace trireme::cli
