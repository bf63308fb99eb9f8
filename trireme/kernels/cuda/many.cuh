// One launch for many tensors: a list of items is an argument of the kernel, and each block finds the item
// that it is of. A step of a small model is hundreds of updates of a few kilobytes each; as launches of their
// own they take longer to start than to run.
#pragma once

#include <algorithm>
#include <vector>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {

inline constexpr size_t kMostArgumentBytes = 32764;  // of a kernel since CUDA 12.1

template <typename Item>
struct Items {
  static constexpr int kMost =
      static_cast<int>((kMostArgumentBytes - 64) / (sizeof(Item) + sizeof(unsigned)));
  int count = 0;
  unsigned first[kMost + 1];  // block of each item; of the one behind the last: all blocks
  Item at[kMost];
};

// Item::run(block) does what block `block` of the item is to do; all threads of the block come along.
template <typename Item>
__global__ void __launch_bounds__(Item::kThreads) many_kernel(const __grid_constant__ Items<Item> items) {
  int low = 0, high = items.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (items.first[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  items.at[low].run(blockIdx.x - items.first[low]);
}

// Item::blocks() blocks each; items with none are left out.
template <typename Item>
void launch_items(const std::vector<Item>& list, cudaStream_t stream) {
  Items<Item> items;
  unsigned blocks = 0;
  const auto launch = [&] {
    items.first[items.count] = blocks;
    if (blocks > 0) many_kernel<<<blocks, Item::kThreads, 0, stream>>>(items);
    items.count = 0;
    blocks = 0;
  };
  for (const Item& item : list) {
    if (item.blocks() == 0) continue;
    if (items.count == Items<Item>::kMost) launch();
    items.first[items.count] = blocks;
    items.at[items.count++] = item;
    blocks += static_cast<unsigned>(item.blocks());
  }
  launch();
}

// Kernel::run and run_many of a kernel of which item_of(context) is all that it does.
template <typename Item, Item (*kItemOf)(const KernelContext&)>
void run_items(std::span<const KernelContext> contexts) {
  std::vector<Item> list;
  for (const KernelContext& context : contexts) list.push_back(kItemOf(context));
  launch_items(list, stream_of(contexts[0]));
}
template <typename Item, Item (*kItemOf)(const KernelContext&)>
void run_item(const KernelContext& context) {
  run_items<Item, kItemOf>({&context, 1});
}

}  // namespace trireme::cuda
