// See product_choices.h.
#include "trireme/kernels/product_choices.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"

namespace trireme {
namespace {

constexpr std::string_view kTitle = "trireme products of ";

// Takes `count` numbers from the front of a line; false where they are not there.
template <typename Numbers>
bool take_numbers(std::string_view& line, Numbers& numbers, int base) {
  for (auto& number : numbers) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number, base);
    if (error != std::errc()) return false;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
  }
  return true;
}

}  // namespace

std::string print(const ProductTable& table) {
  std::string text = fmt::format("{}{}\n", kTitle, table.machine);
  for (const auto& [key, algorithm] : table.choices) {
    for (const int64_t number : key) text += fmt::format("{} ", number);
    for (const uint64_t word : algorithm) text += fmt::format(" {:x}", word);
    text += '\n';
  }
  return text;
}

ProductTable parse_products(std::string_view text, std::string_view path) {
  ProductTable table;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number == 1) {
      if (!line.starts_with(kTitle))
        throw_error("{} does not begin with '{}': it is no file of products", path, kTitle);
      table.machine = line.substr(kTitle.size());
      continue;
    }
    ProductKey key;
    ProductAlgorithm algorithm;
    if (!take_numbers(line, key, 10) || !take_numbers(line, algorithm, 16) || !line.empty())
      throw_error("{}, line {}: {} numbers and {} hexadecimal words expected", path, number, key.size(),
                  algorithm.size());
    if (!table.choices.try_emplace(key, algorithm).second)
      throw_error("{}, line {}: this product is there twice", path, number);
  }
  if (table.machine.empty()) throw_error("{} is empty: no file of products", path);
  return table;
}

ProductChoices::ProductChoices(std::string path, Missing missing, std::string machine)
    : path_(std::move(path)), missing_(missing), machine_(std::move(machine)) {
  if (missing_ == Missing::kTime && !std::filesystem::exists(path_)) return;
  expect_regular_file(path_, "what `trireme bench train --tune` has made");
  std::ifstream file(path_);
  if (!file)
    throw_error("{} can not be read; `trireme bench train --device cuda --tune {}` makes it", path_, path_);
  ProductTable table = parse_products(std::string(std::istreambuf_iterator<char>(file), {}), path_);
  if (table.machine == machine_) {
    choices_ = std::move(table.choices);
  } else if (missing_ != Missing::kTime) {
    throw_error("{} is for {}, but this is {}; `trireme bench train --device cuda --tune FILE` makes one",
                path_, table.machine, machine_);
  }
}

const ProductAlgorithm* ProductChoices::find(const ProductKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

void ProductChoices::add(const ProductKey& key, const ProductAlgorithm& algorithm) {
  choices_[key] = algorithm;
  std::ofstream file(path_);
  file << print({machine_, choices_});
  if (!file.flush()) throw_error("{} can not be written", path_);
}

}  // namespace trireme
