// The CPU as a device: memory from the system, streams that execute on the caller and its pool at once.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/runtime/device.h"

namespace trireme {
namespace {

// Page-aligned and, for large blocks, aligned to 2 MiB with huge pages asked for: an arena of hundreds of
// megabytes walked through once a step is otherwise slowed by misses of the page table.
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

// An empty tensor may have no memory at all, and memcpy takes no null pointer.
void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

class DoneEvent : public Event {
 public:
  void wait() override {}
};

class CpuStream : public Stream {
 public:
  explicit CpuStream(cpu::CpuContext& context) : context_(context) {}
  void launch(const Kernel& kernel, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              const Attrs& attrs, std::byte* workspace, Communicator* communicator) override {
    kernel.launch({inputs, outputs, attrs, context_, workspace, communicator});
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { copy_bytes(to, from, bytes); }
  void upload(std::byte* to, const void* from, size_t bytes) override { copy_bytes(to, from, bytes); }
  void download(void* to, const std::byte* from, size_t bytes) override { copy_bytes(to, from, bytes); }
  std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
  void synchronize() override {}

 private:
  cpu::CpuContext& context_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("{} thread{}", threads(), threads() == 1 ? "" : "s");
  }
  Buffer allocate(size_t bytes) override {
    const size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
    const size_t size = std::max<size_t>(1, (bytes + alignment - 1) / alignment) * alignment;
    void* data = std::aligned_alloc(alignment, size);
    if (!data)
      throw_error("{} of memory are not to be had; a smaller batch or model needs less", format_bytes(bytes));
    if (alignment == kHugePage) madvise(data, size, MADV_HUGEPAGE);
    return Buffer({static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); }}, bytes);
  }
  Memory memory() const override { return Memory::kOfHost; }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CpuStream>(context_); }
  const KernelTable& kernels() const override { return cpu_kernels(); }
  int threads() const override { return pool_.threads(); }

 private:
  ThreadPool pool_;
  cpu::CpuContext context_{pool_};
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  if (threads < 1) throw_error("{} threads asked for, 1 or more expected", threads);
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace trireme
