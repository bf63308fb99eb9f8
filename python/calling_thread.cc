// See calling_thread.h.
#include "python/calling_thread.h"

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace trireme::python {
namespace {

// How long Ctrl-C may wait to be noticed.
constexpr std::chrono::milliseconds kLookAfter{50};

}  // namespace

void CallingThread::run(const std::function<void()>& work) {
  std::exception_ptr error;
  {
    const pybind11::gil_scoped_release release;
    std::thread thread([&] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    });
    serve();
    thread.join();
  }
  if (failure_) std::rethrow_exception(failure_);
  if (error) std::rethrow_exception(error);
}

void CallingThread::serve() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    changed_.wait_for(lock, kLookAfter, [&] { return done_ || asked_; });
    const std::function<void()>* const what = asked_;
    const bool failed = failure_ != nullptr;
    lock.unlock();
    {
      const pybind11::gil_scoped_acquire gil;
      try {
        if (what && !failed) (*what)();
        if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
      } catch (...) {
        keep(std::current_exception());
      }
    }
    lock.lock();
    if (!what) continue;
    asked_ = nullptr;
    changed_.notify_all();
  }
}

void CallingThread::call(const std::function<void()>& what) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return asked_ == nullptr; });  // several ranks may have something to tell
  asked_ = &what;
  changed_.notify_all();
  changed_.wait(lock, [&] { return asked_ != &what; });
}

void CallingThread::keep(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  stop_ = true;
}

}  // namespace trireme::python
