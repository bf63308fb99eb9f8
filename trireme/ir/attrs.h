// The attributes of one node: a short list of (name, value), kept in the order in which they were set so
// that text is stable. Reading never allocates, so kernels may read them in the steady state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme {

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items);

  void set(std::string_view name, AttrValue value);  // replaces an older value
  void erase(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The value, or an Error that names the attribute when it is missing or of another kind.
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;  // an integer is taken too
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;

  // The same, with a default for a missing attribute.
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string_view text(std::string_view name, std::string_view otherwise) const;

  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const AttrValue* find(std::string_view name) const;
  template <typename T>
  const T& get(std::string_view name, const char* kind) const;

  std::vector<std::pair<std::string, AttrValue>> items_;
};

}  // namespace trireme
