# `cmake --install`: the command, the libraries, the headers that trireme/trireme.h reaches, and what
# find_package(trireme) and pkg-config read. The libraries are static, one per folder; a program links
# trireme::trireme, which brings them all and what they need.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)

get_property(libraries GLOBAL PROPERTY TRIREME_LIBRARIES)
list(REMOVE_ITEM libraries trireme_bench trireme_place trireme_chaos trireme_http trireme_dashboard trireme_serve trireme_placed trireme_reproduce trireme_cli)  # of the command alone
add_library(trireme_all INTERFACE)
set_target_properties(trireme_all PROPERTIES EXPORT_NAME trireme)
target_link_libraries(trireme_all INTERFACE ${libraries})
target_compile_features(trireme_all INTERFACE cxx_std_20)
# Functions in headers are compiled once more with the program, and must round as they do in the library.
target_compile_options(trireme_all INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(TRIREME_SANITIZE)
  target_compile_options(trireme_all INTERFACE -fsanitize=${TRIREME_SANITIZE})
  target_link_options(trireme_all INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()

install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(FILES packaging/trireme.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES packaging/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME trireme COMPONENT command)
install(TARGETS trireme_all ${libraries} EXPORT trireme
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT trireme NAMESPACE trireme:: DESTINATION ${package_folder} FILE trireme-targets.cmake)
install(CODE "set(source \"${PROJECT_SOURCE_DIR}\")\nset(include_folder \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)

configure_package_config_file(cmake/trireme-config.cmake.in trireme-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trireme-config.cmake ${PROJECT_BINARY_DIR}/trireme-config-version.cmake
        DESTINATION ${package_folder})

# pkg-config wants a library before those that it needs: against the order of the data path.
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND "-l" OUTPUT_VARIABLE link_flags)
set(other_libraries ${CMAKE_THREAD_LIBS_INIT} ${MPI_CXX_LIBRARIES})
if(TRIREME_HAS_CUDA)
  list(APPEND other_libraries ${CUDA_cudart_static_LIBRARY} -lrt -ldl)
endif()
string(REPLACE ";" " " link_flags "${link_flags};${other_libraries}")
file(RELATIVE_PATH prefix_from_here /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/trireme.pc.in trireme.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/trireme.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# `cpack -G DEB`, as scripts/package calls it: the command alone, with the libraries that it is linked with.
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_CONTACT "the authors of Trireme")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train neural networks across many devices")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
