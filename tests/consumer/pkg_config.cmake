# Compiles main.cpp with what pkg-config says of an installation, and runs it: pkg-config, CXX, PREFIX, WORK_DIR are given.
execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/${LIBDIR}/pkgconfig" "${PKG_CONFIG}" --cflags --libs rlx
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(COMMAND "${CXX}" -std=c++20 "${CMAKE_CURRENT_LIST_DIR}/main.cpp" ${flags} "-Wl,-rpath,${PREFIX}/${LIBDIR}"
  -o "${WORK_DIR}/by_pkg_config" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/by_pkg_config" COMMAND_ERROR_IS_FATAL ANY)
