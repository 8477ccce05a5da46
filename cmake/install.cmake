# `cmake --install`: the library, its headers, the program, and a package for find_package(rlx).
include(CMakePackageConfigHelpers)

# Self-contained: the program finds the library, and the library finds the oneDNN that it was built with, wherever
# the tree is moved to; cmake/run_paths.cmake.
set(private_libdir "${CMAKE_INSTALL_LIBDIR}/rlx")
file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
rlx_look_beside(rlx)
if(NOT rlx_installed STREQUAL "rlx")  # cmake/public_library.cmake
  rlx_look_in(${rlx_installed} rlx)
endif()
if(RLX_HAS_ONEDNN)
  # One file, by the name that is looked for: where it came from, a wheel, what should be a link is a second copy.
  install(FILES "$<TARGET_FILE:DNNL::dnnl>" DESTINATION "${private_libdir}" RENAME "$<TARGET_SONAME_FILE_NAME:DNNL::dnnl>")
endif()
# The module of MLX looks for the library one folder up, and for MLX where it was found.
if(TARGET rlx_mlx)
  install(TARGETS rlx_mlx LIBRARY DESTINATION "${private_libdir}")
endif()

install(TARGETS ${rlx_installed} EXPORT rlxTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET rlx_program)
  rlx_look_in(rlx_program "${bin_to_lib}")
  install(TARGETS rlx_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(NOT CMAKE_CROSSCOMPILING)  # the program writes its manual pages and completions itself
    set(share "${PROJECT_BINARY_DIR}/share")
    add_custom_command(OUTPUT "${share}/man/man1/rlx.1" COMMAND rlx_program manual --install "${share}" DEPENDS rlx_program
      COMMENT "Writing the manual pages and completions" VERBATIM)
    add_custom_target(rlx_manual ALL DEPENDS "${share}/man/man1/rlx.1")
    install(DIRECTORY "${share}/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
  endif()
endif()
# The archive: its users link to what the shared library is linked to. Libraries of the system go by their names, as a package is moved from one
# machine to another; what lies in no folder of the system is copied beside.
if(RLX_STATIC)
  set(static_needs "${LAPACK_LIBRARIES}" "${ZLIB_LIBRARIES}" "${UTF8PROC_LIBRARY}" "${PCRE2_LIBRARY}" "${LIBZIP_LIBRARY}")
  if(RLX_HAS_ONEDNN)
    list(APPEND static_needs "${RLX_GOMP}")
  endif()
  set(static_names)
  foreach(file IN LISTS static_needs)
    if(file MATCHES "/lib([^/]+)\\.(so|a|dylib)[^/]*$")
      list(APPEND static_names "${CMAKE_MATCH_1}")
    elseif(file MATCHES "^-l(.*)$")
      list(APPEND static_names "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(APPEND static_names pthread ${CMAKE_DL_LIBS})
  list(REMOVE_DUPLICATES static_names)
  set(static_files)
  if(RLX_HAS_JINJA)
    install(FILES "${rlx_jinja_library}" DESTINATION "${private_libdir}")
    list(APPEND static_files "librlx_jinja.a")
  endif()
  if(RLX_HAS_ONEDNN)
    foreach(config IN ITEMS RELEASE NOCONFIG)
      get_target_property(soname DNNL::dnnl IMPORTED_SONAME_${config})
      if(soname)
        list(APPEND static_files "${soname}")
        break()
      endif()
    endforeach()
  endif()
  list(TRANSFORM static_files PREPEND "$<INSTALL_PREFIX>/${private_libdir}/")
  target_include_directories(rlx_static INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  set_property(TARGET rlx_static PROPERTY INTERFACE_LINK_LIBRARIES "$<INSTALL_INTERFACE:${static_files};${static_names}>")
  install(TARGETS rlx_static EXPORT rlxTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(DIRECTORY include/rlx "${PROJECT_BINARY_DIR}/include/rlx" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE CHANGELOG.md SECURITY.md docs/versions.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The licences of what this carries of others, and the list of it, an SBOM.
set(licences_dir "${CMAKE_INSTALL_DATADIR}/licenses/rlx")
install(FILES LICENSE DESTINATION "${licences_dir}")
set(carried)
if(RLX_HAS_ONEDNN)
  set(carried "carried\t$<TARGET_FILE:DNNL::dnnl>\t${private_libdir}/$<TARGET_SONAME_FILE_NAME:DNNL::dnnl>")
endif()
rlx_write_parts("${rlx_third_party}/installed" "${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${rlx_installed}>" "${CMAKE_INSTALL_BINDIR}/rlx" ${carried})
install(CODE "set(collect \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/scripts/third_party.py\" collect \"${rlx_third_party}/installed\"
  --version ${PROJECT_VERSION})
  set(licences_dir \"${licences_dir}\")")
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  execute_process(COMMAND ${collect} --root "${root}" --licences "${root}/${licences_dir}/third_party" --sbom "${root}/${licences_dir}/rlx.cdx.json"
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(WARNING "The licences of what this installation carries of others are not all in ${root}/${licences_dir}: do not pass it on without them")
  endif()
]])

# For pkg-config, which finds the rest from where the file lies: an installation may be moved.
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "/${pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(cmake/rlx.pc.in "${PROJECT_BINARY_DIR}/rlx.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rlx.pc" DESTINATION "${pkgconfig_dir}")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rlx")
install(EXPORT rlxTargets NAMESPACE rlx:: DESTINATION "${package_dir}")
configure_package_config_file(cmake/rlxConfig.cmake.in "${PROJECT_BINARY_DIR}/rlxConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rlxConfig.cmake" "${PROJECT_BINARY_DIR}/rlxConfigVersion.cmake"
  DESTINATION "${package_dir}")
