// The nouns of the runtime: Device, Buffer, Stream, Event. Everything above is ignorant of which device it
// is.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "trireme/comm/transport/device_links.h"
#include "trireme/kernels/communicator.h"
#include "trireme/kernels/kernel.h"
#include "trireme/kernels/product_choices.h"

namespace trireme {

struct CommUse;  // comm_use.h

// Memory of a device, freed with the last that shares it. Aligned to 64 bytes at least; contents undefined.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<std::byte> data, size_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  const std::shared_ptr<std::byte>& shared() const { return data_; }  // for those who still use it then

 private:
  std::shared_ptr<std::byte> data_;
  size_t bytes_ = 0;
};

// A point in a stream that others can wait for.
class Event {
 public:
  virtual ~Event() = default;
  virtual void wait() = 0;  // blocks the caller until the point is reached
};

// A point in a stream; says when the device came to it.
class Mark {
 public:
  virtual ~Mark() = default;
  // From an earlier mark of the same stream; all work until here must be through.
  virtual double seconds_since(const Mark& earlier) const = 0;
};

// Work that was noted down once and is launched again as a whole, on the same addresses.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void launch() = 0;
};

// What a kernel is launched with, without a workspace.
struct LaunchArguments {
  std::span<const TensorView> inputs, outputs;
  const Attrs* attrs;
};

// Work in order. Calls may return before the work is done; synchronize() waits for all of it.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void launch(const Kernel& kernel, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs, const Attrs& attrs, std::byte* workspace,
                      Communicator* communicator) = 0;
  // The same kernel for several nodes of which none depends on another: one after another, or at once where
  // the kernel has a run_many.
  virtual void launch_many(const Kernel& kernel, std::span<const LaunchArguments> nodes);
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;  // within the device
  virtual void upload(std::byte* to, const void* from, size_t bytes) = 0;     // from the host
  virtual void download(void* to, const std::byte* from, size_t bytes) = 0;  // to the host; returns when done
  // Notes down what `work` launches on this stream instead of doing it. Null where nothing is noted down:
  // there is nothing to gain, or what another thread did with the device at the same time prevented it.
  virtual std::unique_ptr<Replay> capture(const std::function<void()>& work);
  virtual std::unique_ptr<Event> record() = 0;
  // May be noted down with other work, and then tells of the last replay. Where streams have no clock of
  // their own: of the host's, when all work before it is through.
  virtual std::unique_ptr<Mark> mark();
  // What is launched from now on waits for a point of another stream of the device.
  virtual void wait_for(Event& event) { event.wait(); }
  virtual void synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // the kind: "cpu"
  virtual std::string description() const = 0;  // for people: "2 threads", "NVIDIA H200"
  virtual Buffer allocate(size_t bytes) = 0;
  // kOwn: the host, and so a transport, does not reach it.
  enum class Memory { kOfHost, kOwn };
  virtual Memory memory() const = 0;
  // What can be allocated now; none where that is not known beforehand.
  virtual std::optional<size_t> free_bytes() const { return {}; }
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Over a communicator of the host's memory, which must outlive it: one for this device's, whose calls go in
  // the order of the stream. Collective over the ranks of the program. Null where the host's will do.
  virtual std::unique_ptr<Communicator> reached_by(Communicator& host, Stream& stream, const CommUse& use);
  virtual const KernelTable& kernels() const = 0;
  virtual int threads() const = 0;  // that a kernel's workspace must serve; 1 where that has no meaning
};

// By what a GPU's matrix products choose their algorithms, where that is not left to the library: a file that
// was made by timing them, or is to be.
struct ProductFile {
  std::string path = "";  // "": none
  enum class Use { kRead, kTime } use = Use::kRead;
};

struct DeviceOptions {
  std::string kind = "cpu";  // train.device
  int threads = 1;           // of a CPU
  int rank_here = 0;  // number of the rank among those of this machine, to which GPUs are dealt in turn
  ProductFile products = {};
  F32Products f32_products = F32Products::kF32;  // of a GPU
  comm::DeviceLinks links = comm::DeviceLinks::through_host;
};
// Throws an Error with the reason when ranks on such devices can not be linked so, here or at all.
void check_links(const std::string& kind, comm::DeviceLinks links);

// Throws an Error that says what is missing when this build or machine has no such device.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

// The CPU, with its own pool of `threads`. Streams execute at once.
std::unique_ptr<Device> make_cpu_device(int threads);

// A GPU of this machine (cuda_device.cc, or cuda_absent.cc where there is no toolkit to build it with).
std::unique_ptr<Device> make_cuda_device(int index, const ProductFile& products = {},
                                         F32Products f32_products = F32Products::kF32,
                                         comm::DeviceLinks links = comm::DeviceLinks::through_host);
int cuda_device_count();  // 0 also where this build has no CUDA

// A GPU in debug order (train.device=cuda_debug): each op is waited for before the next one is launched, and
// nothing is noted down for replay, so that a fault is an Error of the op that made it. Results are those of
// the usual order, bit for bit.
std::unique_ptr<Device> make_cuda_debug_device(int index, const ProductFile& products = {},
                                               F32Products f32_products = F32Products::kF32,
                                               comm::DeviceLinks links = comm::DeviceLinks::through_host);

}  // namespace trireme
