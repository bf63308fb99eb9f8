// A thread of Python that waits for work done by another one. Python runs its signal handlers in its main
// thread alone, and programs expect their callbacks where they made the call. So what takes long runs on a
// thread of its own without the GIL, and the caller meanwhile looks for signals and runs what the work asks
// it to.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace trireme::python {

class CallingThread {
 public:
  // Runs `work` on another thread; returns when it has. With the GIL held. Throws what keep() was given
  // first, or else what the work threw.
  void run(const std::function<void()>& work);

  // Becomes true after Ctrl-C and when a call has failed: the work is to end.
  const std::atomic<bool>& stop() const { return stop_; }
  void ask_to_stop() { stop_ = true; }

  // From any thread of the work: has the caller of run() do this with the GIL, and waits. What it throws is
  // kept. After a failure nothing is called any more.
  void call(const std::function<void()>& what);

  // Keeps an exception for run() to throw, and asks the work to stop. From any thread.
  void keep(std::exception_ptr failure);

 private:
  void serve();

  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* asked_ = nullptr;
  bool done_ = false;
  std::exception_ptr failure_;
};

// The same for work that calls nothing back.
template <typename Work>
auto run_interruptible(const Work& work) {
  CallingThread caller;
  std::optional<decltype(work(caller.stop()))> result;
  caller.run([&] { result.emplace(work(caller.stop())); });
  return std::move(*result);
}

}  // namespace trireme::python
