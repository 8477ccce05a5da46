# The module of the device mlx (src/backends/mlx), which alone is linked to MLX. It uses the library that opens it, so that there is one for each:
# librlx_mlx for librlx, and librlx_mlx_c for librlx_c, which Python, C and Go load. Both have the same objects.
file(GLOB mlx_sources CONFIGURE_DEPENDS "src/backends/mlx/*.cpp")
add_library(rlx_mlx_objects OBJECT ${mlx_sources})
target_compile_features(rlx_mlx_objects PRIVATE cxx_std_20)
set_target_properties(rlx_mlx_objects PROPERTIES UNITY_BUILD OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories(rlx_mlx_objects PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(rlx_mlx_objects SYSTEM PRIVATE "${MLX_INCLUDE_DIRS}")
target_link_libraries(rlx_mlx_objects PRIVATE rlx rlx_compiler_settings mlx)

# OpenBLAS is named before MLX, for the loader takes the first of two libraries with the same functions, and MLX's wheel brings the
# reference BLAS.
# It looks for the library one folder up, and for MLX where CMake found it; a wheel in the local environment is reached by a link beside the
# module, as an installation must not know the checkout (cmake/run_paths.cmake). There the link is for whoever installs to make, or
# RLX_MLX_LIBRARY names MLX (docs/mlx.md).
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${mlx_library_folder}" mlx_is_local)
if(mlx_is_local)
  cmake_path(GET mlx_library_folder PARENT_PATH mlx_package)
  file(MAKE_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/rlx")
  file(CREATE_LINK "${mlx_package}" "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/rlx/mlx" SYMBOLIC)
  set(mlx_run_path "${RLX_ORIGIN}/mlx/lib")
else()
  set(mlx_run_path "${RLX_ORIGIN}/mlx/lib;${mlx_library_folder}")
endif()
function(rlx_mlx_module name library)
  add_library(${name} MODULE $<TARGET_OBJECTS:rlx_mlx_objects>)
  target_link_libraries(${name} PRIVATE ${library} rlx_compiler_settings -Wl,--no-as-needed ${rlx_lapack} mlx)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/rlx"
    INSTALL_RPATH "${RLX_ORIGIN}/..;${mlx_run_path}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()
rlx_mlx_module(rlx_mlx rlx)
