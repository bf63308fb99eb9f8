// Connects every rank with every other: each listens on its own address, tells it to all, connects to the
// ranks below it and is connected to by those above. The listening socket is closed again at the end.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/wire/handshake.h"
#include "trireme/comm/wire/rendezvous.h"
#include "trireme/comm/wire/secret.h"
#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

struct MeshLink {
  Descriptor socket;    // none for this rank itself
  std::string address;  // of the other end
};

struct Mesh {
  std::vector<MeshLink> links;  // by rank
  int ranks_on_host = 1;        // with this one
};

// Collective. `host` is the address of this host to listen on. Throws Error on all ranks that can be told
// when some connection does not come about within the timeout.
Mesh connect_mesh(Rendezvous& rendezvous, const Secret& secret, const Membership& self,
                  const std::string& host, double timeout_seconds);

}  // namespace trireme::comm
