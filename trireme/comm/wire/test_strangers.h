// For tests: everybody who should not be at a job's door, at once and in threads: a port scan, garbage, a
// frame that claims 4 GiB, HTTP, silence, and one byte a second (slow loris).
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

class TestStrangers {
 public:
  explicit TestStrangers(std::string address) : address_(std::move(address)) {
    add([this] { say("", 0); });
    add([this] { say("GET / HTTP/1.1\r\n\r\n", 20); });
    add([this] { say(std::string(100'000, '\xff'), 20); });
    // Looks like one of us and claims a payload of 4 GiB.
    add([this] { say("TRIREME2" + std::string(16, '\0') + std::string(200, '\xff'), 20); });
    for (int i = 0; i < 8; ++i) {
      threads_.emplace_back([this] {
        Descriptor socket;
        while (!stop_) {
          // Who finds nobody at the door yet comes again soon.
          const bool heard = socket && send(socket.get(), "T", 1, MSG_NOSIGNAL) == 1;
          if (!heard) socket = connect();
          std::this_thread::sleep_for(std::chrono::milliseconds(heard ? 1000 : 20));
        }
      });
    }
  }
  ~TestStrangers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  int connections() const { return connections_; }

 private:
  // Again and again, until the end.
  void add(std::function<void()> body) {
    threads_.emplace_back([this, body = std::move(body)] {
      while (!stop_) body();
    });
  }
  Descriptor connect() {
    Descriptor socket = start_connect(address_, 0);
    if (socket) ++connections_;
    return socket;
  }
  void say(const std::string& text, int stay_milliseconds) {
    const Descriptor socket = connect();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (socket && !text.empty()) send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    std::this_thread::sleep_for(std::chrono::milliseconds(stay_milliseconds));
  }

  std::string address_;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::vector<std::thread> threads_;
};

}  // namespace trireme::comm
