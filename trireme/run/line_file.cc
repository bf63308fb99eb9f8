// See line_file.h.
#include "trireme/run/line_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

bool breaks_off(int file) {
  struct stat status {};
  char last = '\n';
  return ::fstat(file, &status) == 0 && status.st_size > 0 &&
         ::pread(file, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

}  // namespace

LineFile::LineFile(std::string path)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), "a+"), std::fclose) {
  if (!file_) throw_error("cannot write {}: {}", path_, std::strerror(errno));
  if (breaks_off(::fileno(file_.get()))) waiting_ = "\n";
}

void LineFile::add_bytes(std::string_view record) {
  waiting_ += record;
  write_waiting();
}

void LineFile::write_waiting() {
  while (!waiting_.empty()) {
    const ssize_t written = ::write(::fileno(file_.get()), waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (problem_.empty()) untold_ = fmt::format("cannot write {}: {}", path_, std::strerror(errno));
      problem_ = std::strerror(errno);
      return;
    }
    waiting_.erase(0, static_cast<size_t>(written));
  }
  problem_.clear();
}

void LineFile::finish() {
  if (waiting_.empty()) return;
  throw_error("cannot write {}: {}; the last {} of it are lost. Free some room", path_, problem_,
              format_bytes(waiting_.size()));
}

}  // namespace trireme
