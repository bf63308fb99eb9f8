// Reads one line of a text form (graphs, programs) piece by piece. Every piece takes the blanks behind it.
// The text may come from anywhere: what does not fit throws an Error that shows the place, and sizes are
// bounded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/attrs.h"
#include "trireme/ir/type.h"

namespace trireme {

class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) { skip(); }

  bool done() const { return at_ == line_.size() || line_[at_] == '#'; }  // but for a comment
  void expect_end() const;
  bool take(std::string_view token);  // false, and nothing is read, where the line goes on otherwise
  void expect(std::string_view token);
  // Letters, digits and the signs that Hugging Face and our own names use.
  std::string name();
  std::string word();        // a name, or "" where there is none
  std::string value_name();  // of `%name`
  int64_t integer();
  std::vector<int64_t> integers();  // [1,2,3]
  TensorType type();                // f32[4,8]
  Attrs attrs();                    // {name=value, …}; none where there is no `{`

 private:
  void skip();
  std::string_view rest() const { return line_.substr(at_, 20); }
  AttrValue attr_value();
  std::string quoted();

  std::string_view line_;
  size_t at_ = 0;
};

}  // namespace trireme
