// See far_device.h. Opening and closing all pages around each call is slow, and right for small models.
#include "far_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/kernels/cpu/context.h"

namespace trireme::parity {
namespace {

constexpr size_t kPage = 65536;  // a multiple of any machine's page

class Pages {
 public:
  std::shared_ptr<std::byte> allocate(size_t bytes) {
    const size_t size = (bytes / kPage + 1) * kPage;
    void* data = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TRIREME_CHECK(data != MAP_FAILED);
    all_.push_back({data, size});
    return {static_cast<std::byte*>(data), [this, size](std::byte* p) {
              std::erase_if(all_, [&](const auto& one) { return one.first == p; });
              munmap(p, size);
            }};
  }
  // A collective's kernel moves bytes through the stream while it runs.
  template <typename Body>
  void opened(const Body& body) {
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
    body();
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int how) {
    for (const auto& [data, size] : all_) TRIREME_CHECK(mprotect(data, size, how) == 0);
  }
  std::vector<std::pair<void*, size_t>> all_;
  int depth_ = 0;
};

class DoneEvent : public Event {
 public:
  void wait() override {}
};

class FarStream : public Stream {
 public:
  FarStream(Pages& pages, cpu::CpuContext& context) : pages_(pages), context_(context) {}
  void launch(const Kernel& kernel, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              const Attrs& attrs, std::byte* workspace, Communicator* communicator) override {
    pages_.opened([&] { kernel.launch({inputs, outputs, attrs, context_, workspace, communicator}); });
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { move(to, from, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override { move(to, from, bytes); }
  void download(void* to, const std::byte* from, size_t bytes) override { move(to, from, bytes); }
  std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
  void synchronize() override {}

 private:
  void move(void* to, const void* from, size_t bytes) {
    pages_.opened([&] { std::memmove(to, from, bytes); });
  }
  Pages& pages_;
  cpu::CpuContext& context_;
};

class FarDevice : public Device {
 public:
  std::string name() const override { return "far"; }
  std::string description() const override { return "memory that is out of reach"; }
  Buffer allocate(size_t bytes) override { return Buffer(pages_.allocate(bytes), bytes); }
  Memory memory() const override { return Memory::kOwn; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<FarStream>(pages_, context_); }
  const KernelTable& kernels() const override { return cpu_kernels(); }
  int threads() const override { return 1; }

 private:
  ThreadPool pool_{1};
  cpu::CpuContext context_{pool_};
  Pages pages_;
};

}  // namespace

std::unique_ptr<Device> make_far_device() {
  return std::make_unique<FarDevice>();
}

}  // namespace trireme::parity
