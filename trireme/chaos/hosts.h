// Two "hosts" on this machine: network namespaces that a virtual cable joins. Needs root and the commands ip
// and tc (package iproute2).
#pragma once

#include <string>
#include <vector>

namespace trireme::chaos {

// Runs a command to its end. Throws Error, with what it said, where it fails.
void run_tool(const std::vector<std::string>& command);

class TwoHosts {
 public:
  TwoHosts();  // throws Error where namespaces are not permitted
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // What a command on host 0 or 1 begins with.
  std::vector<std::string> prefix(int host) const;
  static std::string address(int host);

  void cut_cable();
  // From now on nothing that this host sends arrives: its frames are addressed to nobody.
  void lose_all_from(int host);
  void limit_rate(const std::string& rate);  // "1mbit", each way

 private:
  std::string space(int host) const;
  void make();
  void remove() noexcept;
};

}  // namespace trireme::chaos
