# Installs BUILD_DIR into a fresh tree below WORK_DIR, moves that tree (an installation must not remember where it was
# made), then configures, builds and tests the consumer against it.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${WORK_DIR}/installed")
file(RENAME "${WORK_DIR}/installed" "${WORK_DIR}/moved")
if(LINUX AND PYTHON)  # nothing of it is loaded from the current directory, nor from where it was made
  run("${PYTHON}" "${DOCUMENTS}/scripts/check_run_paths" --forget "${DOCUMENTS}" "${WORK_DIR}/moved")
  run("${PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/versions.py" "${WORK_DIR}/moved" "${DOCUMENTS}" "${CMAKE_COMMAND}")
  run("${PYTHON}" "${DOCUMENTS}/scripts/third_party.py" check "${WORK_DIR}/moved")
endif()
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  run("${CMAKE_COMMAND}" -D "PKG_CONFIG=${PKG_CONFIG}" -D "CXX=${CXX}" -D "PREFIX=${WORK_DIR}/moved" -D "LIBDIR=${LIBDIR}"
    -D "WORK_DIR=${WORK_DIR}" -P "${CMAKE_CURRENT_LIST_DIR}/pkg_config.cmake")
else()
  message(NOTICE "No pkg-config here: rlx.pc is not tried")
endif()
run("${CMAKE_COMMAND}" -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK_DIR}/build"
    -D "CMAKE_PREFIX_PATH=${WORK_DIR}/moved" -D "DOCUMENTS=${DOCUMENTS}" -D "STATIC=${STATIC}" -D "CMAKE_CXX_COMPILER=${CXX}" -D CMAKE_BUILD_TYPE=Release)
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${CTEST}" --test-dir "${WORK_DIR}/build" --output-on-failure)
file(REMOVE_RECURSE "${WORK_DIR}")
