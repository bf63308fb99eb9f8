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
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # which CMake 3.25 does not know of nvcc
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
  endif()
endif()
message(STATUS "CUDA: ${TRIREME_HAS_CUDA}")
