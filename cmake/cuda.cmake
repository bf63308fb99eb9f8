# Optional: ranks that compute on a GPU. Sets TRIREME_HAS_CUDA where a toolkit is found; without one everything
# else is built and tested as ever, and train.device=cuda is refused with a word.
option(TRIREME_CUDA "build for GPUs where NVIDIA's CUDA toolkit is found" ON)
set(TRIREME_HAS_CUDA OFF)
if(TRIREME_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)  # Hopper, and what comes after it through PTX
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(TRIREME_HAS_CUDA ON)
  endif()
endif()
message(STATUS "CUDA: ${TRIREME_HAS_CUDA}")
