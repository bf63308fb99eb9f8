// See completion_request.h.
#include "trireme/serve/completion_request.h"

#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "trireme/base/json.h"
#include "trireme/base/text.h"
#include "trireme/serve/request_error.h"

namespace trireme::serve {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
  throw RequestError(400, "invalid_value", why, std::string(key));
}

// The keys of a request. Null is as good as left out.
class Keys {
 public:
  explicit Keys(std::string_view body) {
    try {
      object_ = parse_json<Json>(body, "the request", 8);
    } catch (const Error& error) {
      refuse("", error.what());
    }
    if (!object_.is_object()) refuse("", "the request's body is no JSON object");
  }

  const Json* find(const std::string& key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  double number(const std::string& key, double otherwise, double least, double most) {
    const Json* value = find(key);
    if (!value) return otherwise;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= least && number <= most))
      refuse(key,
             fmt::format("'{}' is {}; a number from {} to {} expected", key, shown(*value), least, most));
    return number;
  }
  int64_t integer(const std::string& key, int64_t otherwise, int64_t least, int64_t most) {
    const Json* value = find(key);
    if (!value) return otherwise;
    const bool fits = value->is_number_integer() &&
                      !(value->is_number_unsigned() &&
                        value->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
    const int64_t number = fits ? value->get<int64_t>() : 0;
    if (!fits || number < least || number > most)
      refuse(key, fmt::format("'{}' is {}; a whole number from {} to {} expected", key, shown(*value), least,
                              most));
    return number;
  }
  bool flag(const std::string& key) {
    const Json* value = find(key);
    if (value && !value->is_boolean())
      refuse(key, fmt::format("'{}' is {}; true or false expected", key, shown(*value)));
    return value && value->get<bool>();
  }
  std::string text(const std::string& key) {
    const Json* value = find(key);
    if (value && !value->is_string())
      refuse(key, fmt::format("'{}' is {}; a string expected", key, shown(*value)));
    return value ? value->get<std::string>() : "";
  }
  // For what others have and this server has not: nothing but the value that changes nothing.
  void only(const std::string& key, const Json& neutral) {
    const Json* value = find(key);
    if (value && *value != neutral)
      refuse(key, fmt::format("'{}' is {}, which is not supported; leave it out", key, shown(*value)));
  }
  void refuse_others() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.contains(key)) continue;
      const std::vector<std::string> names(known_.begin(), known_.end());
      refuse(printable(key),
             fmt::format("'{}' is not known; {}", printable(key).substr(0, 80), suggestion(key, names)));
    }
  }

  static std::string shown(const Json& value) {
    const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.size() <= 60 ? text : printable(text.substr(0, 57)) + "...";
  }

 private:
  Json object_;
  std::set<std::string> known_;
};

std::variant<std::string, std::vector<int32_t>> prompt_of(const Json* value) {
  if (!value) refuse("prompt", "there is no 'prompt'; a string expected, or a list of tokens");
  if (value->is_string()) return value->get<std::string>();
  std::vector<int32_t> tokens;
  if (!value->is_array() || value->empty()) refuse("prompt", "'prompt' is no string and no list of tokens");
  for (const Json& token : *value) {
    if (!token.is_number_integer() || token < 0 || token > std::numeric_limits<int32_t>::max())
      refuse("prompt",
             fmt::format("'prompt' has {}; one string expected, or a list of tokens. Send several prompts as "
                         "several requests: they are computed together all the same",
                         Keys::shown(token)));
    tokens.push_back(token.get<int32_t>());
  }
  return tokens;
}

std::vector<std::string> stops_of(const Json* value, const Limits& limits) {
  if (!value) return {};
  std::vector<std::string> stops;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > static_cast<size_t>(limits.stops))
    refuse("stop", fmt::format("'stop' has {} strings; {} at most", list.size(), limits.stops));
  for (const Json& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty() ||
        one.get_ref<const std::string&>().size() > limits.stop_bytes)
      refuse("stop", fmt::format("'stop' has {}; strings of 1 to {} bytes expected", Keys::shown(one),
                                 limits.stop_bytes));
    stops.push_back(one.get<std::string>());
  }
  return stops;
}

bool includes_usage(const Json* options) {
  if (!options) return false;
  const bool known = options->is_object() && std::ranges::all_of(options->items(), [](const auto& item) {
                       return item.key() == "include_usage" && item.value().is_boolean();
                     });
  if (!known)
    refuse("stream_options", "'stream_options' has something else than include_usage: true or false");
  return options->value("include_usage", false);
}

Image decoded(const std::string& base64, size_t number, int64_t most_pixels) {
  std::vector<uint8_t> bytes(base64.size() / 4 * 3 + 3);
  size_t count = 0;
  if (sodium_base642bin(bytes.data(), bytes.size(), base64.data(), base64.size(), "\r\n", &count, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0)
    refuse("images", fmt::format("image {} is no base64", number));
  bytes.resize(count);
  try {
    return decode_image(bytes, fmt::format("image {}", number), most_pixels);
  } catch (const Error& error) {
    refuse("images", error.what());
  }
}

Image listed(const Json& channels, size_t number) {
  const auto wrong = [&] {
    refuse(
        "images",
        fmt::format("image {} is no base64 string and no list [channel][y][x] of whole numbers from 0 to 255 "
                    "with one or three channels of one size",
                    number));
  };
  const size_t count = channels.is_array() ? channels.size() : 0;
  if ((count != 1 && count != 3) || !channels[0].is_array() || channels[0].empty() ||
      !channels[0][0].is_array())
    wrong();
  const size_t height = channels[0].size(), width = channels[0][0].size();
  if (width == 0) wrong();
  Image image{static_cast<int64_t>(height), static_cast<int64_t>(width),
              std::vector<uint8_t>(height * width * 3)};
  for (size_t c = 0; c < count; ++c) {
    if (!channels[c].is_array() || channels[c].size() != height) wrong();
    for (size_t y = 0; y < height; ++y) {
      const Json& line = channels[c][y];
      if (!line.is_array() || line.size() != width) wrong();
      for (size_t x = 0; x < width; ++x) {
        if (!line[x].is_number_integer() || line[x] < 0 || line[x] > 255) wrong();
        const auto value = line[x].get<uint8_t>();
        uint8_t* const pixel = &image.pixels[(y * width + x) * 3];
        if (count == 1)
          std::fill_n(pixel, 3, value);
        else
          pixel[c] = value;
      }
    }
  }
  return image;
}

}  // namespace

CompletionRequest read_completion_request(std::string_view body, const Limits& limits) {
  constexpr double kHottest = 100;
  Keys keys(body);
  CompletionRequest request;
  request.model = keys.text("model");
  const Json* prompt = keys.find("prompt");
  request.options.tokens = keys.integer("max_tokens", std::min<int64_t>(16, limits.tokens), 1, limits.tokens);
  request.options.temperature = keys.number("temperature", 1, 0, kHottest);
  request.options.top_p = keys.number("top_p", 1, 0, 1);
  if (request.options.top_p == 0) refuse("top_p", "'top_p' is 0; above 0 and up to 1 expected");
  request.options.top_k = keys.integer("top_k", 0, 0, std::numeric_limits<int32_t>::max());
  if (keys.find("seed"))
    request.seed = static_cast<uint64_t>(
        keys.integer("seed", 0, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  request.stop = stops_of(keys.find("stop"), limits);
  request.echo = keys.flag("echo");
  request.stream = keys.flag("stream");
  request.include_usage = includes_usage(keys.find("stream_options"));
  if (keys.flag("ignore_eos")) request.at_end_of_text = CompletionRequest::AtEnd::kGoOn;
  std::ignore = keys.text("user");
  keys.only("n", 1);
  keys.only("best_of", 1);
  keys.only("suffix", "");
  keys.only("logprobs", nullptr);
  keys.only("presence_penalty", 0);
  keys.only("frequency_penalty", 0);
  keys.only("logit_bias", Json::object());
  keys.refuse_others();
  request.prompt = prompt_of(prompt);
  return request;
}

ClassifyRequest read_classify_request(std::string_view body, const Limits& limits) {
  Keys keys(body);
  ClassifyRequest request;
  request.model = keys.text("model");
  const Json* images = keys.find("images");
  keys.refuse_others();
  const auto most = static_cast<size_t>(limits.waiting);
  if (!images || !images->is_array() || images->empty() || images->size() > most)
    refuse("images", fmt::format("'images' is no list of 1 to {} images", most));
  // Of all images together: a small file may decode to a large image.
  int64_t pixels = int64_t{1} << 24;
  for (const Json& image : *images) {
    const size_t number = request.images.size();
    const Image& taken = request.images.emplace_back(
        image.is_string() ? decoded(image.get_ref<const std::string&>(), number, pixels)
                          : listed(image, number));
    pixels -= taken.height * taken.width;
  }
  return request;
}

}  // namespace trireme::serve
