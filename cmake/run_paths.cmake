# Where the library and the program look for what they load. A target whose run path CMake changes at installation gets one
# in the build tree that ends in an empty element, for which the loader takes the current directory: whoever runs the program
# in a folder of somebody else would load that folder's libraries (cmComputeLinkInformation::GetRPathString, CMake 3.25). So
# nothing is changed at installation: a build tree lies as an installation does, and has its run paths from the beginning.
if(APPLE)
  set(RLX_ORIGIN "@loader_path")
else()
  set(RLX_ORIGIN "$ORIGIN")
endif()

# Looks in `path` first, which is relative to the file; then where the libraries that it was linked to lie, if that is
# neither the system's place nor in this checkout.
function(rlx_look_in target path)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${RLX_ORIGIN}/${path}" BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()

# The library looks in a folder of ours beside it, where an installation has the oneDNN that it was built with: so that it
# never hides one of the system. The build tree has a link there.
function(rlx_look_beside target)
  rlx_look_in(${target} rlx)
  if(RLX_HAS_ONEDNN)
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND "${CMAKE_COMMAND}" -E make_directory "$<TARGET_FILE_DIR:${target}>/rlx"
      COMMAND "${CMAKE_COMMAND}" -E create_symlink "$<TARGET_FILE:DNNL::dnnl>"
              "$<TARGET_FILE_DIR:${target}>/rlx/$<TARGET_SONAME_FILE_NAME:DNNL::dnnl>")
  endif()
endfunction()
