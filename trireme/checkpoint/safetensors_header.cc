// Reading of the header by events, not into a tree: a tree would silently keep the last of two equal keys,
// and would hold a header of 100 MB several times over. The reader is a small state machine whose every
// unexpected event is a refusal.
#include "trireme/checkpoint/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "trireme/base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

constexpr std::string_view kMetadata = "__metadata__";

struct Format {
  std::string_view name;
  size_t bytes;
  std::optional<DType> dtype;
};
constexpr Format kFormats[] = {
    {"F64", 8, DType::f64},   {"F32", 4, DType::f32},       {"F16", 2, DType::f16},
    {"BF16", 2, DType::bf16}, {"I64", 8, DType::i64},       {"I32", 4, DType::i32},
    {"U8", 1, DType::u8},     {"BOOL", 1, std::nullopt},    {"I8", 1, std::nullopt},
    {"I16", 2, std::nullopt}, {"U16", 2, std::nullopt},     {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt}, {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
};

const Format* find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &Format::name);
  return found == std::end(kFormats) ? nullptr : found;
}

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& header, std::string_view where) : header_(header), where_(where) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(text); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::shape && state_ != State::offsets) unexpected(fmt::format("{}", value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse("the number {} is too large", value);
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      header_.metadata[key_] = value;
    } else if (state_ == State::tensor && key_ == "dtype") {
      const Format* format = find_format(value);
      if (!format) refuse("unknown dtype '{}'", value);
      tensor_.format = value;
      tensor_.dtype = format->dtype;
    } else {
      unexpected(fmt::format("the string '{}'", value));
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (state_ == State::top) {
      tensor_ = StoredTensor{.name = value};
      if (!names_.insert(value).second) throw_error("{}: two entries named '{}'", where_, value);
    } else {
      if (!fields_.insert(value).second) refuse("'{}' twice", value);
      if (state_ == State::tensor && value != "dtype" && value != "shape" && value != "data_offsets") {
        refuse("unknown field '{}'; expected dtype, shape and data_offsets", value);
      }
    }
    return true;
  }

  bool start_object(size_t) override {
    fields_.clear();
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top) {
      state_ = key_ == kMetadata ? State::metadata : State::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::tensor) {
      if (fields_.size() != 3) refuse("found {} of the fields dtype, shape and data_offsets", fields_.size());
      header_.tensors.push_back(std::move(tensor_));
    }
    state_ = state_ == State::top ? State::end : State::top;
    return true;
  }

  bool start_array(size_t) override {
    numbers_.clear();
    if (state_ != State::tensor || key_ == "dtype") unexpected("an array");
    state_ = key_ == "shape" ? State::shape : State::offsets;
    return true;
  }

  bool end_array() override {
    if (state_ == State::shape) {
      if (numbers_.size() > Shape::kMaxDims) {
        refuse("{} dims; at most {} are supported", numbers_.size(), int{Shape::kMaxDims});
      }
      tensor_.shape = Shape(std::span<const int64_t>(numbers_));
    } else {
      if (numbers_.size() != 2) refuse("data_offsets has {} numbers; expected 2", numbers_.size());
      tensor_.begin = static_cast<uint64_t>(numbers_[0]);
      tensor_.end = static_cast<uint64_t>(numbers_[1]);
    }
    state_ = State::tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw_error("{}: the header is not JSON at its byte {}; the file is damaged or not safetensors", where_,
                position);
  }

 private:
  enum class State { start, top, tensor, metadata, shape, offsets, end };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw_error("{}: '{}': {}", where_, tensor_.name, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void unexpected(const std::string& found) const {
    const char* expected = state_ == State::start      ? "an object"
                           : state_ == State::top      ? "an object for each name"
                           : state_ == State::metadata ? "a string for each key"
                           : state_ == State::tensor   ? (key_ == "dtype" ? "a string" : "an array")
                                                       : "an integer, at least 0";
    throw_error("{}: '{}': '{}' holds {}; expected {}", where_, tensor_.name, key_, found, expected);
  }

  SafetensorsHeader& header_;
  std::string_view where_;
  State state_ = State::start;
  std::string key_;
  StoredTensor tensor_;
  std::vector<int64_t> numbers_;
  std::set<std::string> names_, fields_;
};

// Bytes that the shape and the format ask for; refuses shapes any part of whose product overflows.
uint64_t bytes_wanted(const StoredTensor& tensor, std::string_view where) {
  int64_t product = static_cast<int64_t>(find_format(tensor.format)->bytes);
  bool is_empty = false;
  for (int64_t extent : tensor.shape) {
    is_empty |= extent == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(extent, 1), &product)) {
      throw_error("{}: '{}': shape {} is too large", where, tensor.name, to_string(tensor.shape));
    }
  }
  return is_empty ? 0 : static_cast<uint64_t>(product);
}

void check_offsets(SafetensorsHeader& header, uint64_t data_bytes, std::string_view where) {
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& t) { return std::pair(t.begin, t.end); });
  uint64_t next = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin != next) {
      throw_error("{}: '{}' begins at byte {} of the data, expected {}: there is {}", where, tensor.name,
                  tensor.begin, next, tensor.begin > next ? "a hole" : "an overlap");
    }
    const uint64_t wanted = bytes_wanted(tensor, where);
    if (tensor.end < tensor.begin || tensor.bytes() != wanted) {
      throw_error("{}: '{}' has data_offsets [{}, {}), expected {} bytes for {} {}", where, tensor.name,
                  tensor.begin, tensor.end, wanted, tensor.format, to_string(tensor.shape));
    }
    next = tensor.end;
  }
  if (next != data_bytes) {
    throw_error("{}: {} bytes of data, expected {}: the file is {}", where, data_bytes, next,
                data_bytes < next ? "cut short" : "longer than its tensors");
  }
}

}  // namespace

uint64_t parse_header_length(std::string_view prefix, uint64_t file_bytes, std::string_view where) {
  if (file_bytes < kHeaderPrefixBytes || prefix.size() < kHeaderPrefixBytes) {
    throw_error("{}: {} bytes; a safetensors file has at least {}", where, file_bytes, kHeaderPrefixBytes);
  }
  uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kHeaderPrefixBytes);
  if (length > kMaxHeaderBytes) {
    throw_error("{}: a header of {} bytes, expected at most {}; not a safetensors file, or damaged", where,
                length, kMaxHeaderBytes);
  }
  if (length > file_bytes - kHeaderPrefixBytes) {
    throw_error("{}: a header of {} bytes in a file of {}: the file is cut short", where, length, file_bytes);
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, std::string_view where) {
  if (!json.starts_with('{'))
    throw_error("{}: the header does not begin with '{{'; not a safetensors file", where);
  // The JSON library takes a NUL for the end of its input and would not see what follows.
  if (json.find('\0') != std::string_view::npos) throw_error("{}: the header holds a NUL byte", where);
  SafetensorsHeader header;
  HeaderReader reader(header, where);
  nlohmann::json::sax_parse(json, &reader);
  check_offsets(header, data_bytes, where);
  return header;
}

std::string render_header(const SafetensorsHeader& header) {
  const auto text = [](const std::string& string) {
    try {
      return nlohmann::json(string).dump();
    } catch (const nlohmann::json::exception&) {
      throw_error("a safetensors name or note is not valid UTF-8: '{}'", string);
    }
  };
  std::string json = "{";
  const auto separate = [&] { json += json.size() > 1 ? "," : ""; };
  if (!header.metadata.empty()) {
    json += fmt::format("\"{}\":{{", kMetadata);
    for (bool first = true; const auto& [key, value] : header.metadata) {
      json += fmt::format("{}{}:{}", std::exchange(first, false) ? "" : ",", text(key), text(value));
    }
    json += "}";
  }
  for (const StoredTensor& tensor : header.tensors) {
    separate();
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", text(tensor.name),
                        tensor.format, to_string(tensor.shape), tensor.begin, tensor.end);
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw_error("the names of {} tensors make a header of {} bytes; safetensors allows {}",
                header.tensors.size(), json.size(), kMaxHeaderBytes);
  }
  const uint64_t length = json.size();
  std::string prefix(kHeaderPrefixBytes, '\0');
  std::memcpy(prefix.data(), &length, kHeaderPrefixBytes);
  return prefix + json;
}

std::string_view safetensors_name(DType dtype) {
  return std::ranges::find(kFormats, std::optional(dtype), &Format::dtype)->name;
}

}  // namespace trireme
