// Ranks that are processes of one host, by shared memory: see README.md for the layout and the protocols.
#pragma once

#include <memory>

#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/rendezvous.h"

namespace trireme::comm {

// Collective over all ranks of the rendezvous. Throws Error where the ranks cannot share memory.
std::unique_ptr<Transport> make_shm_transport(Rendezvous& rendezvous);

}  // namespace trireme::comm
