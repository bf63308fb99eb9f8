// How the rows of q, k and v lie: in a tensor each, or side by side in one.
#pragma once

namespace trireme::cuda {

enum class HeadRows { kApart, kPacked };

}  // namespace trireme::cuda
