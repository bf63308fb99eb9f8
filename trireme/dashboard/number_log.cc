// See number_log.h. Lines go through nlohmann's reader of events, which makes no tree of them: 27 MB of
// 100,000 steps take a third of a second.
#include "trireme/dashboard/number_log.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "trireme/dashboard/plain_file.h"

namespace trireme::dashboard {

namespace {

// A file that anybody wrote must not fill the memory with columns or with one line.
constexpr size_t kMostColumns = 256, kMostLineBytes = size_t{1} << 20, kChunkBytes = size_t{4} << 20;
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

}  // namespace

// Takes the numbers of one object; nested values are skipped.
class NumberLogReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit NumberLogReader(NumberLog& log) : log_(log) {}

  void begin() {
    depth_ = 0;
    any_ = false;
    expected_ = 0;
    column_ = kNowhere;
  }
  bool any() const { return any_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ < 64; }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return ++depth_ < 64; }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) column_ = find(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool number(double value) {
    if (depth_ != 1 || column_ == kNowhere) return depth_ > 0;
    std::vector<double>& values = log_.columns_[column_].values;
    values.resize(log_.rows_ + 1, kNoNumber);
    values.back() = value;
    any_ = true;
    return true;
  }
  // Lines have the same names in the same order, nearly always. Names of values that are no numbers get no
  // column before a number comes, but they are few.
  size_t find(const std::string& name) {
    if (expected_ < log_.columns_.size() && log_.columns_[expected_].name == name) return expected_++;
    const auto found = log_.numbers_.find(name);
    if (found != log_.numbers_.end()) {
      expected_ = found->second + 1;
      return found->second;
    }
    if (log_.columns_.size() == kMostColumns || name.size() > 256) return kNowhere;
    log_.numbers_[name] = log_.columns_.size();
    log_.columns_.push_back({name, {}});
    return log_.columns_.size() - 1;
  }

  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  NumberLog& log_;
  int depth_ = 0;
  bool any_ = false;
  size_t column_ = kNowhere, expected_ = 0;
};

void NumberLog::forget() {
  offset_ = 0;
  rows_ = 0;
  broken_lines_ = 0;
  columns_.clear();
  numbers_.clear();
}

void NumberLog::add(std::string_view text) {
  NumberLogReader reader(*this);
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.empty()) continue;
    reader.begin();
    const bool whole = nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
    if (reader.any()) {
      ++rows_;
      // Of a line that broke off within, nothing is kept but its place.
      if (!whole)
        for (Column& column : columns_)
          if (column.values.size() == rows_) column.values.back() = kNoNumber;
    }
    if (!whole) ++broken_lines_;
  }
  for (Column& column : columns_)
    if (!column.values.empty()) column.values.resize(rows_, kNoNumber);
}

bool NumberLog::refresh() {
  const PlainFile file(path_);
  if (!file) {
    const bool had = rows_ > 0;
    forget();
    return had;
  }
  bool changed = false;
  if (file.device() != device_ || file.inode() != inode_ || file.size() < offset_) {
    changed = rows_ > 0;
    forget();
    device_ = file.device();
    inode_ = file.inode();
  }
  for (;;) {
    std::string text = file.read(offset_, kChunkBytes);
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) {
      if (text.size() < kMostLineBytes) return changed;
      offset_ += static_cast<int64_t>(text.size());  // of a line that is too long to be one of ours
      continue;
    }
    text.resize(end + 1);
    offset_ += static_cast<int64_t>(text.size());
    add(text);
    changed = true;
  }
}

std::span<const double> NumberLog::column(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return {};
  return columns_[found->second].values;
}

std::vector<std::string> NumberLog::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_)
    if (!column.values.empty()) names.push_back(column.name);
  return names;
}

size_t NumberLog::bytes() const {
  size_t bytes = 0;
  for (const Column& column : columns_) bytes += column.values.capacity() * sizeof(double);
  return bytes;
}

}  // namespace trireme::dashboard
