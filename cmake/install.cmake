# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays out: commands, libreshard and its header, the library of layouts, documents, and what
# pkg-config and find_package need. The tree may be moved as a whole: nothing in it names the prefix.
include(CMakePackageConfigHelpers)

set(library_dir ${CMAKE_INSTALL_DATADIR}/reshard/library)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reshard)

install(TARGETS reshardc reshard_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS tools/nccl-topology DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS reshard EXPORT reshard LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Backends in objects of their own stand beside it.
foreach(plugin reshard_mpi reshard_nccl)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(FILES runtime/reshard.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY plans/library/ DESTINATION ${library_dir})

# Documents, in the directories that they have here.
file(GLOB_RECURSE pages RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*)
list(APPEND pages README.md LICENSE NEWS.md grammar/LANGUAGE.md grammar/YAML.md plans/FORMAT.md
  tools/VERIFY.md tools/SHOW.md tools/SIM.md tools/EXPLAIN.md tools/RUN.md)
set(installed plans/library ${library_dir} runtime/reshard.h ${CMAKE_INSTALL_INCLUDEDIR}/reshard.h)
include(cmake/documents.cmake)
install(DIRECTORY ${PROJECT_BINARY_DIR}/documents/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(cmake/reshard-config.cmake.in ${PROJECT_BINARY_DIR}/cmake/reshard-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS library_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/reshard-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT reshard NAMESPACE reshard:: FILE reshard-targets.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/cmake/reshard-config.cmake ${PROJECT_BINARY_DIR}/cmake/reshard-config-version.cmake
  DESTINATION ${package_dir})

file(RELATIVE_PATH prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/reshard.pc.in ${PROJECT_BINARY_DIR}/cmake/reshard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/reshard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
