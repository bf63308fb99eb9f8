// Attributes of a node; see attrs.h.
#include "trireme/ir/attrs.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme {

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

void Attrs::set(std::string_view name, AttrValue value) {
  for (auto& item : items_) {
    if (item.first == name) {
      item.second = std::move(value);
      return;
    }
  }
  items_.emplace_back(std::string(name), std::move(value));
}

void Attrs::erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& item : items_) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

template <typename T>
const T& Attrs::get(std::string_view name, const char* kind) const {
  const AttrValue* value = find(name);
  if (!value) throw_error("attribute '{}' is missing; {} is expected", name, kind);
  const T* typed = std::get_if<T>(value);
  if (!typed) throw_error("attribute '{}' is of the wrong kind; {} is expected", name, kind);
  return *typed;
}

int64_t Attrs::integer(std::string_view name) const {
  return get<int64_t>(name, "an integer");
}

double Attrs::real(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value && std::holds_alternative<int64_t>(*value)) return static_cast<double>(std::get<int64_t>(*value));
  return get<double>(name, "a number");
}

const std::string& Attrs::text(std::string_view name) const {
  return get<std::string>(name, "a text");
}

const std::vector<int64_t>& Attrs::integers(std::string_view name) const {
  return get<std::vector<int64_t>>(name, "a list of integers");
}

int64_t Attrs::integer(std::string_view name, int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}
double Attrs::real(std::string_view name, double otherwise) const {
  return has(name) ? real(name) : otherwise;
}
std::string_view Attrs::text(std::string_view name, std::string_view otherwise) const {
  return has(name) ? std::string_view(text(name)) : otherwise;
}

}  // namespace trireme
