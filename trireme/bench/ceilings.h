// What this machine can do at most, measured: multiply-adds a second from registers or in a product of
// matrices, whichever are more, and bytes a second through memory. Figures of kernels are given as fractions
// of these, so they carry from machine to machine.
#pragma once

#include <cstddef>
#include <map>

#include "trireme/base/thread_pool.h"
#include "trireme/ir/op_record.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

class Ceilings {
 public:
  explicit Ceilings(ThreadPool& pool);
  // Of another device: a product in `dtype` and a copy, by its own kernels.
  Ceilings(Device& device, DType dtype);

  double flops_per_second() const { return flops_per_second_; }  // f32 multiply-adds, two FLOPs each
  // Measures the arithmetic once more and keeps the better figure: on a machine with other users the first
  // moment may have been a bad one, and a ceiling that is too low flatters everything under it.
  void measure_again();
  // Of a loop a[i] = b[i] + s·c[i] whose three arrays have so many bytes together. Small ones stay in a
  // cache, so the ceiling of an op is measured at the size of its operands. Measured once per power of two.
  double bytes_per_second(double working_set_bytes);
  double memory_bytes_per_second();  // arrays too large for any cache

  // The least time in which this machine can do the work.
  double seconds(const Cost& cost);

 private:
  double measure_flops() const;
  double measure_bytes(size_t bytes) const;

  ThreadPool* pool_ = nullptr;  // or, where there is none:
  Device* device_ = nullptr;
  DType dtype_ = DType::f32;
  double flops_per_second_;
  std::map<size_t, double> bandwidths_;
};

// Of many short bursts the best ones count: other users of the machine only make it slower. Of the
// arithmetic, all threads at once, each by the time that it was running; for so many seconds of each kind.
double measure_flops_per_second(ThreadPool& pool, double seconds = 0.2);
double measure_bytes_per_second(ThreadPool& pool, size_t bytes);

}  // namespace trireme::bench
