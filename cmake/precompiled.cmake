# trireme_precompiled(TARGET library|test [header…]): what most sources include of the standard library, fmt and (tests)
# GoogleTest is compiled once. More than half of a source's time to build is the reading of headers.
# base and its test hold the two of them, and all other targets must be built with the same flags, or GCC says
# "not used" and reads the headers as ever. A target that names more headers has a precompiled header of its own. Each source still includes what it uses: a build with
# -DTRIREME_PRECOMPILED=OFF, as the fuzzers' is, finds what was forgotten.
option(TRIREME_PRECOMPILED "compile common headers once" ON)

set(trireme_library_headers
    <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fmt/format.h> <fstream> <functional> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <thread> <utility> <vector>)
set(trireme_test_headers ${trireme_library_headers} <gmock/gmock.h> <gtest/gtest.h>)
set(trireme_library_owner trireme_base)
set(trireme_test_owner base_test)

function(trireme_precompiled target kind)
  if(NOT TRIREME_PRECOMPILED)
    return()
  endif()
  if(target STREQUAL trireme_${kind}_owner OR ARGN)
    target_precompile_headers(${target} PRIVATE ${trireme_${kind}_headers} ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${trireme_${kind}_owner})
  endif()
endfunction()
