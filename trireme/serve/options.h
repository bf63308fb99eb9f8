// What a server gives its clients at most.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::serve {

struct Limits {
  int batch = 16;             // texts or images that are computed together
  int waiting = 256;          // requests that wait for a place among them
  int64_t tokens = 4096;      // of a request: max_tokens
  int stops = 16;             // of a request: stop
  size_t stop_bytes = 256;    // of each
  double seconds = 300;       // from a request's arrival to its end
  double gather = 0.002;      // seconds for which an image waits for others; texts join those under way
  int64_t read_tokens = 256;  // of prompts that are read between two tokens of the texts under way

  void validate() const;  // throws Error
};

}  // namespace trireme::serve
