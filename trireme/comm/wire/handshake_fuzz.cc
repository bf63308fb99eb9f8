// Both sides of the handshake on any bytes from the other: they end or want more, and never say welcome,
// since no input knows the secret.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/comm/wire/handshake.h"

namespace {

using namespace trireme::comm;

void feed(Handshake& side, std::span<const uint8_t> bytes, size_t piece) {
  while (!bytes.empty() && side.wanted() > 0) {
    const size_t count = std::min({piece, bytes.size(), side.wanted()});
    side.receive(std::as_bytes(bytes.first(count)));
    side.sent(side.to_send().size());
    bytes = bytes.subspan(count);
  }
  TRIREME_CHECK(side.verdict() == Verdict::unproven);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Secret secret = Secret::generate();
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  const size_t piece = data[0] % 128 + 1;
  AcceptorHandshake acceptor(secret, {.rank = 0, .ranks = 2}, Purpose::mesh,
                             [](int) { return Verdict::welcome; });
  feed(acceptor, bytes, piece);
  ConnectorHandshake connector(secret, {.rank = 1, .ranks = 2}, Purpose::mesh, 0);
  feed(connector, bytes, piece);
  return 0;
}
