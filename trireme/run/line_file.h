// A file that grows by lines or records while a run goes on. It must never end the run: what can not be
// written (a full disk) is kept and tried again with the next one.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

class LineFile {
 public:
  // Adds to what is there; a line that broke off there gets its end. Throws Error.
  explicit LineFile(std::string path);

  void add(const std::string& line) { add_bytes(line + "\n"); }
  void add_bytes(std::string_view record);  // with the system when the call returns
  // Why lines are waiting, told once until all are written again; "" otherwise.
  std::string take_problem() { return std::exchange(untold_, ""); }
  void finish();  // throws Error when lines are still waiting

 private:
  void write_waiting();

  std::string path_, waiting_, problem_, untold_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace trireme
