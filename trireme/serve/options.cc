// See options.h.
#include "trireme/serve/options.h"

#include "trireme/base/error.h"

namespace trireme::serve {

void Limits::validate() const {
  if (batch < 1 || batch > 1024) throw_error("a batch of {}; 1 to 1024 expected", batch);
  if (waiting < 1) throw_error("{} requests may wait; 1 or more expected", waiting);
  if (tokens < 1) throw_error("{} tokens for a request; 1 or more expected", tokens);
  if (!(seconds > 0 && seconds <= 86400))
    throw_error("{} seconds for a request; above 0, up to 86400", seconds);
  if (!(gather >= 0 && gather <= 1))
    throw_error("images wait {} seconds for others; 0 to 1 expected", gather);
}

}  // namespace trireme::serve
