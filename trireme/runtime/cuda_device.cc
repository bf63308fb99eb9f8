// A GPU as a device: memory by cudaMalloc, streams of the CUDA runtime. What comes from the host goes through
// pinned memory of the stream, so that a small upload neither waits for the stream nor keeps the caller's
// memory; what goes to the host is waited for.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "trireme/base/text.h"
#include "trireme/kernels/cuda/context.h"
#include "trireme/kernels/cuda/cublas_lt.h"
#include "trireme/kernels/cuda/table.h"
#include "trireme/kernels/device_fault.h"
#include "trireme/kernels/product_choices.h"
#include "trireme/runtime/device.h"
#include "trireme/runtime/in_memory_communicator.h"
#include "trireme/runtime/nccl.h"

namespace trireme {
namespace {

using cuda::check;

// Host memory that the device reads and writes by itself.
class Pinned {
 public:
  explicit Pinned(size_t bytes) { check(cudaMallocHost(&data_, bytes), "pinned host memory"); }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class CudaEvent : public Event {
 public:
  CudaEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event"); }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "an event"); }
  void wait() override { check(cudaEventSynchronize(event_), "waiting for the device"); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaMark : public Mark {
 public:
  explicit CudaMark(cudaStream_t stream) {
    check(cudaEventCreate(&event_), "an event");
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status), "an event");
    // What is noted down would otherwise order launches alone, and never be recorded.
    const bool noted = status == cudaStreamCaptureStatusActive;
    check(cudaEventRecordWithFlags(event_, stream, noted ? cudaEventRecordExternal : cudaEventRecordDefault),
          "an event");
  }
  ~CudaMark() override { cudaEventDestroy(event_); }
  CudaMark(const CudaMark&) = delete;
  double seconds_since(const Mark& earlier) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<const CudaMark&>(earlier).event_, event_),
          "the time between two events");
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Takes uploads in turn; a half is used again when the device has read what was in it.
class UploadRing {
 public:
  static constexpr size_t kHalf = size_t{4} << 20;

  // Memory for the next `bytes` (at most kHalf), to be copied from on `stream` right after.
  std::byte* next(size_t bytes, cudaStream_t stream) {
    if (used_ + bytes > kHalf) {
      read_[half_].record(stream);
      half_ = 1 - half_;
      used_ = 0;
      if (turns_++ > 0) read_[half_].wait();
    }
    std::byte* const place = memory_.data() + static_cast<size_t>(half_) * kHalf + used_;
    used_ += (bytes + 63) / 64 * 64;
    return place;
  }

 private:
  Pinned memory_{2 * kHalf};
  std::array<CudaEvent, 2> read_;
  int half_ = 0;
  int64_t turns_ = 0;
  size_t used_ = 0;
};

// A CUDA graph: hundreds of launches for the price of one.
class CudaReplay : public Replay {
 public:
  CudaReplay(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "a graph of launches");
  }
  ~CudaReplay() override { cudaGraphExecDestroy(graph_); }
  CudaReplay(const CudaReplay&) = delete;
  void launch() override { check(cudaGraphLaunch(graph_, stream_), "launching a graph"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

// kOneByOne: see make_cuda_debug_device().
enum class Order { kStream, kOneByOne };

class CudaStream : public Stream {
 public:
  CudaStream(int device, ProductChoices& choices, F32Products f32_products, Order order)
      : device_(device),
        order_(order),
        stream_(make()),
        context_(stream_, choices, f32_products),
        staging_(kStaging) {}
  ~CudaStream() override {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const { return stream_; }
  void launch(const Kernel& kernel, std::span<const TensorView> inputs, std::span<const TensorView> outputs,
              const Attrs& attrs, std::byte* workspace, Communicator* communicator) override {
    in_order([&] { kernel.launch({inputs, outputs, attrs, context_, workspace, communicator}); });
  }
  void launch_many(const Kernel& kernel, std::span<const LaunchArguments> nodes) override {
    if (!kernel.run_many) return Stream::launch_many(kernel, nodes);
    std::vector<KernelContext> contexts;
    for (const LaunchArguments& node : nodes)
      contexts.push_back({node.inputs, node.outputs, *node.attrs, context_});
    in_order([&] { kernel.run_many(contexts); });
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    use();
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "a copy on the device");
  }
  void upload(std::byte* to, const void* from, size_t bytes) override {
    use();
    for (size_t done = 0; done < bytes;) {
      const size_t now = std::min(bytes - done, UploadRing::kHalf);
      std::byte* const place = ring_.next(now, stream_);
      std::memcpy(place, static_cast<const std::byte*>(from) + done, now);
      check(cudaMemcpyAsync(to + done, place, now, cudaMemcpyHostToDevice, stream_), "a copy to the device");
      done += now;
    }
  }
  void download(void* to, const std::byte* from, size_t bytes) override {
    use();
    for (size_t done = 0; done < bytes;) {
      const size_t now = std::min(bytes - done, kStaging);
      check(cudaMemcpyAsync(staging_.data(), from + done, now, cudaMemcpyDeviceToHost, stream_),
            "a copy to the host");
      synchronize();
      std::memcpy(static_cast<std::byte*>(to) + done, staging_.data(), now);
      done += now;
    }
  }
  std::unique_ptr<Replay> capture(const std::function<void()>& work) override {
    if (order_ == Order::kOneByOne) return nullptr;
    use();
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "noting down launches");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
      cudaStreamIsCapturing(stream_, &status);
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      if (status != cudaStreamCaptureStatusInvalidated) throw;
      cudaGetLastError();  // which is forgotten with it
      return nullptr;
    }
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    if (ended == cudaErrorStreamCaptureInvalidated) {
      cudaGetLastError();
      return nullptr;
    }
    check(ended, "noting down launches");
    return std::make_unique<CudaReplay>(graph, stream_);
  }
  std::unique_ptr<Event> record() override {
    use();
    auto event = std::make_unique<CudaEvent>();
    event->record(stream_);
    return event;
  }
  std::unique_ptr<Mark> mark() override {
    use();
    return std::make_unique<CudaMark>(stream_);
  }
  void wait_for(Event& event) override {
    use();
    check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0),
          "waiting for another stream");
  }
  // A kernel's fault may show here, long after it was launched.
  void synchronize() override {
    use();
    check(cudaStreamSynchronize(stream_), "waiting for the device");
  }

 private:
  static constexpr size_t kStaging = size_t{4} << 20;

  cudaStream_t make() {
    use();
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    return stream;
  }
  template <typename Work>
  void in_order(const Work& work) {
    use();
    try {
      work();
      check(cudaGetLastError(), "a launch");
      if (order_ == Order::kOneByOne) synchronize();
    } catch (const DeviceFault& fault) {
      if (order_ == Order::kOneByOne) throw DeviceError(fault.words());
      throw;
    }
  }

  // The device is a setting of the calling thread.
  void use() const { check(cudaSetDevice(device_), "choosing the device"); }

  int device_;
  Order order_;
  cudaStream_t stream_;
  cuda::CudaContext context_;
  UploadRing ring_;
  Pinned staging_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const ProductFile& products, F32Products f32_products, comm::DeviceLinks links,
             Order order)
      : index_(index), f32_products_(f32_products), links_(links), order_(order) {
    check(cudaSetDevice(index), "choosing the device");
    check(cudaFree(nullptr), "starting the device");
    if (products.path.empty()) return;
    using Missing = ProductChoices::Missing;
    choices_ = ProductChoices(
        products.path, products.use == ProductFile::Use::kTime ? Missing::kTime : Missing::kFirstProposed,
        fmt::format("{}, cuBLASLt {}", description(), cuda::cublas_lt().cublasLtGetVersion()));
  }
  std::string name() const override { return "cuda"; }
  std::string description() const override {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_), "what the device is");
    return properties.name;
  }
  Buffer allocate(size_t bytes) override {
    check(cudaSetDevice(index_), "choosing the device");
    void* data = nullptr;
    if (cudaMalloc(&data, std::max<size_t>(1, bytes)) != cudaSuccess) {
      cudaGetLastError();  // reported below; it must not show again
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      throw_error(
          "{} of GPU memory are not to be had: {} of {} are free; a smaller batch or model needs less",
          format_bytes(bytes), format_bytes(free), format_bytes(total));
    }
    return Buffer({static_cast<std::byte*>(data), [](std::byte* p) { cudaFree(p); }}, bytes);
  }
  std::optional<size_t> free_bytes() const override {
    size_t free = 0, total = 0;
    check(cudaSetDevice(index_), "choosing the device");
    check(cudaMemGetInfo(&free, &total), "how much memory is free");
    return free;
  }
  Memory memory() const override { return Memory::kOwn; }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<CudaStream>(index_, choices_, f32_products_, order_);
  }
  std::unique_ptr<Communicator> reached_by(Communicator& host, Stream& stream, const CommUse& use) override {
    if (links_ == comm::DeviceLinks::in_memory)
      return std::make_unique<InMemoryCommunicator>(host, stream, kernels());
    if (links_ != comm::DeviceLinks::nccl) return Device::reached_by(host, stream, use);
    return make_nccl_communicator({host, use, index_, static_cast<CudaStream&>(stream).get()});
  }
  const KernelTable& kernels() const override { return cuda_kernels(); }
  int threads() const override { return 1; }

 private:
  int index_;
  F32Products f32_products_;
  comm::DeviceLinks links_;
  Order order_;
  ProductChoices choices_;
};

std::unique_ptr<Device> make_in_order(int index, const ProductFile& products, F32Products f32_products,
                                      comm::DeviceLinks links, Order order) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw_error("there is no GPU here that CUDA can use ({}); train.device=cpu computes without one",
                status == cudaSuccess ? "none found" : cudaGetErrorString(status));
  }
  if (index < 0 || index >= count)
    throw_error("GPU {} was asked for, but this machine has {}, counted from 0", index, count);
  return std::make_unique<CudaDevice>(index, products, f32_products, links, order);
}

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::unique_ptr<Device> make_cuda_device(int index, const ProductFile& products, F32Products f32_products,
                                         comm::DeviceLinks links) {
  return make_in_order(index, products, f32_products, links, Order::kStream);
}

std::unique_ptr<Device> make_cuda_debug_device(int index, const ProductFile& products,
                                               F32Products f32_products, comm::DeviceLinks links) {
  return make_in_order(index, products, f32_products, links, Order::kOneByOne);
}

}  // namespace trireme
