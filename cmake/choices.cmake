# What a library can do without: parts, and ops. docs/building.md says what each choice is for; a library with less than all is
# librlx_c alone, the C ABI, from which the linker drops what neither its functions nor its tables lead to.
set(RLX_OPS ALL CACHE STRING "Ops of the library: ALL, or a list of names, of folders of src/ops, and of files that `rlx ops --used-by` wrote")
set(RLX_PARTS ALL CACHE STRING "Parts of the library: ALL, NONE, or a list of what stands in cmake/choices.cmake")

# A part: what it is, and its sources below the root. What a library without it says of its functions in C is written by
# scripts/left_out_functions.py from the sources in src/c_api.
set(rlx_all_parts "")
function(rlx_part name what sources)
  set(rlx_all_parts ${rlx_all_parts} ${name} PARENT_SCOPE)
  set(rlx_sources_of_${name} "${sources}" PARENT_SCOPE)
endfunction()
rlx_part(training "gradients and other transforms, training, low-rank adapters of graphs, data sets" "src/(train|data)/|src/c_api/c_(training|transforms|lora)\\.cpp")
rlx_part(quantization "quantizing of graphs, with calibration" "src/quantization/|src/c_api/c_quantization\\.cpp")
rlx_part(coreml "the device coreml and Core ML packages"
  "src/(frontends/mil|backends/coreml|backends/coreml_framework|devices/coreml)/|src/io/(mil|mlpackage)[a-z_]*\\.cpp|src/c_api/c_(coreml|mil)\\.cpp")
rlx_part(gguf "GGUF files" "src/c_api/c_gguf\\.cpp")
rlx_part(encoders "tokenizers and sentence encoders" "src/c_api/c_models\\.cpp")
rlx_part(language_models "language models and chat templates"
  "src/models/(language/(adapters|config_gguf|config_json|decoder|language_model|special)[a-z_]*|sampler|stop_strings|text_generator)\\.cpp|src/io/chat_template\\.cpp|src/c_api/c_(language_models|chat_template)\\.cpp")
rlx_part(mlx "the device mlx" "src/devices/mlx/")
rlx_part(simulated "the devices loopback and tiny, for tests" "src/devices/simulated/")
rlx_part(sparse "sparse matrices" "extras/sparse/")
rlx_part(splat "Gaussian splatting" "extras/splat/")

set(rlx_parts ${RLX_PARTS})
if(RLX_PARTS STREQUAL "ALL")
  set(rlx_parts ${rlx_all_parts})
elseif(RLX_PARTS STREQUAL "NONE")
  set(rlx_parts "")
endif()
foreach(part IN LISTS rlx_parts)
  if(NOT part IN_LIST rlx_all_parts)
    list(JOIN rlx_all_parts ", " known)
    message(FATAL_ERROR "RLX_PARTS has '${part}'; it is ALL, NONE, or a list of ${known}")
  endif()
endforeach()

set(rlx_left_out_sources "")  # regular expressions
set(rlx_definitions_of_parts "")
foreach(part IN LISTS rlx_all_parts)
  string(TOUPPER "${part}" upper)
  set(has 1)
  if(NOT part IN_LIST rlx_parts)
    set(has 0)
    list(APPEND rlx_left_out_sources "${rlx_sources_of_${part}}")
  endif()
  string(APPEND rlx_definitions_of_parts "#define RLX_PART_${upper} ${has}\n")
endforeach()
set(RLX_IS_WHOLE ON)
if(rlx_left_out_sources OR NOT RLX_OPS STREQUAL "ALL")
  set(RLX_IS_WHOLE OFF)
  list(APPEND rlx_left_out_sources "src/judge/")  # of the program alone
endif()
if(NOT RLX_IS_WHOLE AND (RLX_PROGRAM OR RLX_TESTS OR RLX_BENCH OR RLX_EXAMPLES OR RLX_STATIC))
  message(FATAL_ERROR "A library without all ops and parts is librlx_c alone: configure with -DRLX_PROGRAM=OFF -DRLX_TESTS=OFF "
    "-DRLX_BENCH=OFF -DRLX_EXAMPLES=OFF -DRLX_STATIC=OFF, or with RLX_OPS=ALL and RLX_PARTS=ALL")
endif()

if(NOT RLX_IS_WHOLE)
  # A function, a table: the linker drops each by itself. Functions that only a rule which is left out calls are no mistake.
  target_compile_options(rlx_compiler_settings INTERFACE -ffunction-sections -fdata-sections -Wno-unused-function)
  if(NOT "training" IN_LIST rlx_parts)
    target_compile_options(rlx_compiler_settings INTERFACE "-DRLX_TRANSFORM(...)=erased((void(f),nullptr))")  # rlx/op_def.h
  endif()
endif()

# The ops. Where all are wanted nothing is looked for; else each name is one of the table, or of a part that is in.
set(has_op "constexpr bool has_op(std::string_view) { return true; }")
if(NOT RLX_IS_WHOLE)
  set(known_ops "")
  set(op_tables src/ops)
  foreach(part IN ITEMS sparse splat)
    if(part IN_LIST rlx_parts)
      list(APPEND op_tables extras/${part})
    endif()
  endforeach()
  foreach(folder IN LISTS op_tables)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/ops.def")
    file(STRINGS "${PROJECT_SOURCE_DIR}/${folder}/ops.def" lines REGEX "^RLX_OP\\(")
    list(TRANSFORM lines REPLACE "^RLX_OP\\(([a-z0-9_]+)\\).*" "\\1")
    list(APPEND known_ops ${lines})
    if(NOT folder STREQUAL "src/ops")
      set(ops_of_extras ${ops_of_extras} ${lines})  # a part is there as a whole
    endif()
  endforeach()
  file(GLOB op_folders RELATIVE "${PROJECT_SOURCE_DIR}/src/ops" "${PROJECT_SOURCE_DIR}/src/ops/*")
  set(rlx_ops input param constant ${ops_of_extras})
  foreach(family IN LISTS op_folders)
    file(GLOB sources "${PROJECT_SOURCE_DIR}/src/ops/${family}/*.cpp")
    set(ops_of_${family} "")
    foreach(source IN LISTS sources)
      file(STRINGS "${source}" lines REGEX "^OpDef define_[a-z0-9_]+\\(\\)")
      list(TRANSFORM lines REPLACE "^OpDef define_([a-z0-9_]+).*" "\\1")
      list(APPEND ops_of_${family} ${lines})
    endforeach()
  endforeach()
  foreach(item IN LISTS RLX_OPS)
    if(item STREQUAL "ALL")
      list(APPEND rlx_ops ${known_ops})
    elseif(item IN_LIST known_ops)
      list(APPEND rlx_ops ${item})
    elseif(item IN_LIST op_folders AND ops_of_${item})
      list(APPEND rlx_ops ${ops_of_${item}})
    else()
      cmake_path(ABSOLUTE_PATH item BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE path)
      if(NOT EXISTS "${path}" OR IS_DIRECTORY "${path}")
        list(JOIN op_folders ", " folders)
        message(FATAL_ERROR "RLX_OPS has '${item}', which is no op, none of the folders ${folders}, and no file of ops (${path}). "
          "`rlx ops` lists the ops, and `rlx ops --used-by MODEL` writes such a file.")
      endif()
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
      file(STRINGS "${path}" lines)
      foreach(line IN LISTS lines)
        string(STRIP "${line}" line)
        if(line STREQUAL "" OR line MATCHES "^#")
          continue()
        elseif(NOT line IN_LIST known_ops)
          message(FATAL_ERROR "${path}: there is no op '${line}'; a line is the name of one, or begins with '#'")
        endif()
        list(APPEND rlx_ops ${line})
      endforeach()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES rlx_ops)
  list(SORT rlx_ops)
  # A family none of whose ops is in is not compiled. Only its lowerings and other dropped ops call its kernels and builders.
  foreach(family IN ITEMS linalg optim random signal)
    set(wanted FALSE)
    foreach(op IN LISTS ops_of_${family})
      if(op IN_LIST rlx_ops)
        set(wanted TRUE)
      endif()
    endforeach()
    if(NOT wanted)
      list(APPEND rlx_left_out_sources "src/(ops|kernels)/${family}/")
    endif()
  endforeach()
  list(LENGTH rlx_ops op_count)
  list(LENGTH known_ops known_count)
  list(JOIN rlx_parts ", " names)
  message(STATUS "The library: ${op_count} of ${known_count} ops; parts: ${names}")
  list(JOIN rlx_ops "\", \"" names)
  set(has_op "constexpr bool has_op(std::string_view name) {
  constexpr std::string_view kOps[] = {\"${names}\"};
  for (std::string_view op : kOps)
    if (op == name) return true;
  return false;
}")
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/rlx_choices.h" @ONLY CONTENT
"// Written by cmake/choices.cmake, from RLX_OPS and RLX_PARTS: what this library holds.
#pragma once

#include <string_view>

@rlx_definitions_of_parts@
namespace rlx::choices {

/// Whether the library has the op.
@has_op@

}  // namespace rlx::choices
")
