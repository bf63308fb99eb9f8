// A file with one JSON object a line, as columns of numbers. The file may grow while it is read: what was
// appended is read, the rest is not read again. A last line without its end is left until it has one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::dashboard {

class NumberLog {
 public:
  explicit NumberLog(std::string path) : path_(std::move(path)) {}

  // Reads what is new; all of it when another file has come in its place. Returns whether anything has
  // changed. A file that is not there, is a link or is no regular file has no rows.
  bool refresh();

  // The same of lines that no file has.
  void add(std::string_view lines);

  size_t rows() const { return rows_; }
  // The numbers with this name, one for each row; NaN in rows without one. Empty where no row has it.
  std::span<const double> column(std::string_view name) const;
  std::vector<std::string> names() const;  // in the order in which they came
  size_t bytes() const;                    // of memory
  int64_t broken_lines() const { return broken_lines_; }

 private:
  friend class NumberLogReader;
  struct Column {
    std::string name;
    std::vector<double> values;  // filled up to the row of the last one
  };
  void forget();

  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
  int64_t offset_ = 0;  // of the first line that was not read
  size_t rows_ = 0;
  int64_t broken_lines_ = 0;
  std::vector<Column> columns_;
  std::map<std::string, size_t, std::less<>> numbers_;  // of columns
};

}  // namespace trireme::dashboard
