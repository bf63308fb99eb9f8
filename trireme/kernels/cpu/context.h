// What CPU kernels work with: the thread pool of their rank.
#pragma once

#include "trireme/base/thread_pool.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {

class CpuContext final : public DeviceContext {
 public:
  explicit CpuContext(ThreadPool& threads) : pool(threads) {}
  ThreadPool& pool;
};

inline ThreadPool& pool_of(const KernelContext& context) {
  return static_cast<CpuContext&>(context.device).pool;
}

}  // namespace trireme::cpu
