# Compiler flags that every target shares.
# Of C++ alone: nvcc has its own.
function(trireme_cxx_options)
  foreach(option ${ARGV})
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()
trireme_cxx_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers -fno-math-errno)
# Contraction into FMA is left to Highway's MulAdd, so that the scalar tail of a
# kernel cannot round differently from one compiler version to the next.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  trireme_cxx_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)  # false alarms of GCC 12 on std::string
endif()
trireme_cxx_options(-ffp-contract=off)

# Static libraries that shared ones can take in: the Python package is one. Calls inside a library stay direct.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
trireme_cxx_options(-fno-semantic-interposition)

if(TRIREME_SANITIZE)
  trireme_cxx_options(-fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
endif()

# Highway builds each kernel for some instruction sets and picks one at start. Few of them, because each
# takes as long to build as the rest of a kernel.
set(TRIREME_SIMD_OPTIONS)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  # NEON alone: tiles are made for its vectors of four, and kernels use nothing that came after it.
  set(TRIREME_SIMD_DEFINITIONS HWY_COMPILE_ONLY_STATIC)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC would load ahead of the arithmetic more than the registers hold beside a tile of sums.
    set(TRIREME_SIMD_OPTIONS -fno-schedule-insns)
  endif()
elseif(TRIREME_FUZZ)
  set(TRIREME_SIMD_DEFINITIONS HWY_COMPILE_ONLY_STATIC)  # fuzzers read, they compute nothing
else()
  # AVX2, AVX-512 as Skylake has it, and the baseline, which cannot be left out: plain loops, or SSE2 with a newer
  # Highway. CPUs from before 2013 run that, unless there is SSE4.2 too.
  option(TRIREME_SSE4 "build kernels for processors without AVX2, too" OFF)
  set(not_built "HWY_SSSE3|HWY_SSE4")
  if(TRIREME_SSE4)
    set(not_built HWY_SSSE3)
  endif()
  set(TRIREME_SIMD_DEFINITIONS "HWY_DISABLED_TARGETS=(${not_built}|(HWY_AVX3-1))")
endif()
# For code that no one waits for: the tests' own sources, and libraries that only decide what is to be computed.
# Most of the time that such a file takes to compile is the optimizer's.
set(TRIREME_LIGHT_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
set(TRIREME_FAST_OPTIONS $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O3>)
set(TRIREME_TEST_OPTIONS ${TRIREME_LIGHT_OPTIONS})

if(TRIREME_FUZZ)
  trireme_cxx_options(-fsanitize=fuzzer-no-link)  # coverage of the libraries too, or a fuzzer is blind
endif()
