# What of others a package of RLX carries: code that is compiled into the library or the program, named with these functions
# beside where CMake finds it, and, at installation, the libraries that are copied. scripts/third_party.py finds each one's version, licence and texts,
# and writes them beside an SBOM. What is linked to and stays where it is needs none of that.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(rlx_third_party "${PROJECT_BINARY_DIR}/third_party")
file(MAKE_DIRECTORY "${rlx_third_party}")
set_property(GLOBAL PROPERTY rlx_parts "")

# One row: `kind` is what stands in scripts/third_party.py, `in` is library or program.
function(rlx_contains in kind path)
  set_property(GLOBAL APPEND PROPERTY rlx_parts "${kind}\t${path}\t@${in}@")
endfunction()

# The library or the program has code of this header; the targets say where it is looked for besides the system's folders.
function(rlx_compiles_in in header)
  set(hints)
  foreach(target IN LISTS ARGN)
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(folders)
      list(APPEND hints ${folders})
    endif()
  endforeach()
  find_file(path "${header}" HINTS ${hints} NO_CACHE REQUIRED)
  rlx_contains(${in} header "${path}")
endfunction()

# Writes the table as it is for a package where the library and the program lie at these places; what else is given are rows.
function(rlx_write_parts file library program)
  get_property(parts GLOBAL PROPERTY rlx_parts)
  list(REMOVE_DUPLICATES parts)
  list(APPEND parts ${ARGN})
  list(JOIN parts "\n" text)
  string(REPLACE "@library@" "${library}" text "${text}")
  string(REPLACE "@program@" "${program}" text "${text}")
  file(GENERATE OUTPUT "${file}" CONTENT "${text}\n")
endfunction()
