# Everything comes from the distribution's packages; scripts/install_packages.sh names them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(highway REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
# Optional: the server of `trireme dashboard` and `trireme serve`.
pkg_check_modules(microhttpd IMPORTED_TARGET libmicrohttpd)
# Optional: the solver of `trireme place`.
pkg_check_modules(cbc IMPORTED_TARGET cbc)
# Optional: ranks under mpirun or srun. Open MPI where both are installed; another one by
# -DMPI_EXECUTABLE_SUFFIX=.mpich (Debian's names) or -DMPI_CXX_COMPILER=/path/to/mpicxx.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)
include(cmake/cuda.cmake)
if(TRIREME_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What it must overlook to keep what is built with precompiled headers; and one tree's results serve another's, but
  # for unity builds, whose sources name files by their whole path.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_DEPEND=true CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
