// Requests as clients write them, in JSON. What is not understood is refused, by the name of its key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/data/image_decode.h"
#include "trireme/run/sampler.h"
#include "trireme/serve/options.h"

namespace trireme::serve {

// Of POST /v1/completions, with OpenAI's names and defaults.
struct CompletionRequest {
  std::string model;                                       // "": whichever is served
  std::variant<std::string, std::vector<int32_t>> prompt;  // text, or tokens
  SampleOptions options;                                   // options.tokens: max_tokens
  std::optional<uint64_t> seed;                            // none: another one each time
  std::vector<std::string> stop;
  enum class AtEnd { kStop, kGoOn } at_end_of_text = AtEnd::kStop;  // ignore_eos
  bool echo = false, stream = false, include_usage = false;
};
// Throws RequestError.
CompletionRequest read_completion_request(std::string_view body, const Limits& limits);

// Of POST /v1/classify.
struct ClassifyRequest {
  std::string model;
  std::vector<Image> images;  // pixels as they came
};
// Each image is a JPEG or PNG in base64, or a list [channel][y][x] of numbers from 0 to 255 with one or three
// channels. Throws RequestError.
ClassifyRequest read_classify_request(std::string_view body, const Limits& limits);

}  // namespace trireme::serve
