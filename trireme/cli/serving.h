// What the commands have in common that serve until they are stopped.
#pragma once

#include <csignal>
#include <string>

namespace trireme::cli {

// SIGINT, SIGTERM and SIGHUP are blocked in this thread and those that it starts from now on; to be waited
// for.
sigset_t block_ending_signals();
// An address to listen on, as it stands in the address of a page.
std::string host_in_address(const std::string& address);

}  // namespace trireme::cli
