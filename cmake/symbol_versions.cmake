# The versions of the C ABI's symbols, for the linker of Linux: src/c_api/exports.txt says with which version of RLX each
# function came. A program that was linked to a function of version 0.3 does not start with a library of 0.2, and says so.
set(rlx_exports "${PROJECT_SOURCE_DIR}/src/c_api/exports.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${rlx_exports}")

# Functions that headers of others bring, which each library compiles anew. librlx.so shows its C++ functions, and not these: another
# library of the process that has the same header in another version would otherwise call ours, or we its.
set(rlx_foreign_symbols "")
foreach(namespace IN ITEMS nlohmann Eigen dnnl hwy)
  # As the linker spells them: what a template returns stands first. A pattern has no blanks, and `?` stands for one.
  foreach(before IN ITEMS "" void? bool? char?? int? long? unsigned?long? double? vtable?for? typeinfo?for? typeinfo?name?for? guard?variable?for?)
    string(APPEND rlx_foreign_symbols " ${before}${namespace}::*;")
  endforeach()
endforeach()

# Writes the linker's version script; `others` is what becomes of all other symbols: nothing, or `local: *;`. Functions that
# are named behind it are seen by what we link ourselves, under the version RLX_PRIVATE: no promise to anybody else.
function(rlx_version_script file others)
  file(STRINGS "${rlx_exports}" lines)
  set(versions "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^(rlx_[a-z0-9_]+) ([0-9]+\\.[0-9]+)$")
      message(FATAL_ERROR "${rlx_exports}: a line is a function and a version, not '${line}'")
    endif()
    list(APPEND versions "${CMAKE_MATCH_2}")
    list(APPEND names_${CMAKE_MATCH_2} "${CMAKE_MATCH_1}")
  endforeach()
  list(REMOVE_DUPLICATES versions)
  list(SORT versions COMPARE NATURAL)
  set(script "")
  set(before "")
  foreach(version IN LISTS versions)
    list(JOIN names_${version} ";\n    " names)
    string(APPEND script "RLX_${version} {\n  global:\n    ${names};\n")
    if(NOT before)
      string(APPEND script "  ${others}\n")
    endif()
    string(APPEND script "}${before};\n")
    set(before " RLX_${version}")
  endforeach()
  if(ARGN)
    list(JOIN ARGN ";\n    " names)
    string(APPEND script "RLX_PRIVATE {\n  global:\n    ${names};\n};\n")
  endif()
  file(CONFIGURE OUTPUT "${file}" CONTENT "${script}" @ONLY)
endfunction()

# Makes of the version script `map` one, `out`, in which what these targets call of the library besides stands under RLX_PRIVATE, and if
# `list` is given the C++ symbols of that file under RLX_CXX_<version>. The build writes it, as the targets have to be linked first.
function(rlx_show_private map out)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LIST" "")
  set(files)
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    list(APPEND files "$<TARGET_FILE:${target}>")
  endforeach()
  set(script "${PROJECT_SOURCE_DIR}/cmake/private_symbols.cmake")
  add_custom_command(OUTPUT "${out}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" -D "MAP=${map}" -D "LIST=${arg_LIST}" -D "USERS=${files}" -D "NM=${CMAKE_NM}"
      -D "VERSION=${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}" -D "OUT=${out}" -P "${script}"
    DEPENDS "${map}" "${script}" ${arg_LIST} ${files} ${arg_UNPARSED_ARGUMENTS})
endfunction()
