# Eigen 3 is optional: headers alone, under the MPL 2. With it sparse_solve has a kernel and SparseLu works; without it the
# solve is composed of dense ops.
find_package(Eigen3 3.4 QUIET NO_MODULE)
if(TARGET Eigen3::Eigen)
  get_target_property(eigen_include Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/extras/sparse/lu.cpp" PROPERTIES
    COMPILE_DEFINITIONS "RLX_HAS_EIGEN=1;EIGEN_MPL2_ONLY=1;EIGEN_DONT_PARALLELIZE=1"
    COMPILE_OPTIONS "-isystem;${eigen_include}")
  rlx_compiles_in(library Eigen/SparseLU Eigen3::Eigen)
  message(STATUS "Sparse LU: Eigen ${Eigen3_VERSION}")
else()
  message(STATUS "Sparse LU: composed of dense ops; Eigen 3 (libeigen3-dev) was not found")
endif()
# The loops of products vectorize only then; their order of summation stays.
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/extras/sparse/kernels.cpp" PROPERTIES
  COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-O3>"
  SKIP_PRECOMPILE_HEADERS ON)  # which are compiled with other options
