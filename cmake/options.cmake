# Compiler flags that every target shares.
add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers -fno-math-errno)
# Contraction into FMA is left to Highway's MulAdd, so that the scalar tail of a
# kernel cannot round differently from one compiler version to the next.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict)  # false alarms of GCC 12 on std::string
endif()
add_compile_options(-ffp-contract=off)

if(TRIREME_SANITIZE)
  add_compile_options(-fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
endif()

# Highway builds each kernel for these instruction sets and picks one at start.
# The baseline ones are left out on x86 because every 64-bit machine that can
# train anything has at least SSE4; fewer targets halve the build time.
set(TRIREME_SIMD_DEFINITIONS
    "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)")
