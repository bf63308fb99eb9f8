# trireme_unity(TARGET SOURCES source… [ALONE regex…]): with TRIREME_UNITY, the compiler reads several sources of a folder
# at a time, tests too. Headers are then parsed and templates instantiated once for all of them, so that a first build
# takes half as long.
# Libraries that are LIGHT (library.cmake) are compiled with -O1 as well.
# scripts/quickstart and scripts/test build this way. It is off by default, because a change to one file compiles
# its neighbours as well. Names in anonymous namespaces must be unique within a folder (of tests: within its test
# program), but for sources that match ALONE.
option(TRIREME_UNITY "compile several sources at a time: quicker from scratch, slower after a change" OFF)

function(trireme_unity target)
  if(NOT TRIREME_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE" ${ARGN})
  list(JOIN ARG_ALONE "|" alone)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 25)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes an included source for a header, a name of one source is global to the next, and with so much to
    # inline GCC 12 takes members of optionals for uninitialised.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-shadow -Wno-maybe-uninitialized)
  endif()
  # Highway includes such a source again for each instruction set, by its own name.
  foreach(source ${ARG_SOURCES})
    file(STRINGS ${source} repeated REGEX "foreach_target\\.h")
    if(repeated OR (alone AND source MATCHES "${alone}"))
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
