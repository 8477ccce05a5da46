# The engine of chat templates: the Rust crate in src/io/jinja, as a static library within librlx. It is optional, as it
# wants cargo; scripts/deps installs that and puts the sources of the crates that it stands on into .deps/cargo, so that
# the build itself needs no network.
set(RLX_HAS_JINJA 0)
set(rlx_jinja_folder "${PROJECT_SOURCE_DIR}/src/io/jinja")
set(rlx_jinja_crates "${PROJECT_SOURCE_DIR}/.deps/cargo/vendor")
set(rlx_least_cargo 1.74)
set(rlx_no_jinja "")
if(RLX_JINJA STREQUAL "OFF")
  set(rlx_no_jinja "RLX_JINJA=OFF")
else()
  find_program(CARGO cargo HINTS "$ENV{HOME}/.cargo/bin" "${PROJECT_SOURCE_DIR}/.deps/cargo/bin")
  if(CARGO)
    execute_process(COMMAND "${CARGO}" --version WORKING_DIRECTORY "${rlx_jinja_folder}" OUTPUT_VARIABLE cargo_version ERROR_QUIET)
    if(cargo_version MATCHES "^cargo ([0-9]+\\.[0-9]+(\\.[0-9]+)?)")
      set(cargo_version "${CMAKE_MATCH_1}")
    else()
      set(cargo_version "")
    endif()
  endif()
  file(SHA256 "${rlx_jinja_folder}/Cargo.lock" locked)
  set(fetched "")
  if(EXISTS "${rlx_jinja_crates}/whole")
    file(STRINGS "${rlx_jinja_crates}/whole" fetched LIMIT_COUNT 1)
  endif()
  if(NOT CARGO)
    set(rlx_no_jinja "no cargo; scripts/deps installs it")
  elseif(NOT cargo_version OR cargo_version VERSION_LESS rlx_least_cargo)
    set(rlx_no_jinja "${CARGO} is of version '${cargo_version}', ${rlx_least_cargo} is needed; scripts/deps installs it, -DCARGO=PATH names another")
  elseif(NOT fetched STREQUAL locked)
    set(rlx_no_jinja "the crates of src/io/jinja/Cargo.lock are not in ${rlx_jinja_crates}; scripts/deps fetches them")
  endif()
  # A cross build wants Rust's library for that processor, which only rustup has beside the one for this.
  set(rlx_jinja_target "")
  if(CMAKE_CROSSCOMPILING AND NOT rlx_no_jinja)
    set(rlx_jinja_target "${CMAKE_SYSTEM_PROCESSOR}-unknown-linux-gnu")
    get_filename_component(cargo_folder "${CARGO}" DIRECTORY)
    find_program(RUSTC rustc HINTS "${cargo_folder}")
    execute_process(COMMAND "${RUSTC}" --print target-libdir --target "${rlx_jinja_target}" WORKING_DIRECTORY "${rlx_jinja_folder}"
      OUTPUT_VARIABLE rust_library OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT rust_library OR NOT IS_DIRECTORY "${rust_library}")
      set(rlx_no_jinja "Rust has no library for ${rlx_jinja_target} here; `rustup target add ${rlx_jinja_target}` fetches it")
    endif()
  endif()
  if(rlx_no_jinja AND RLX_JINJA STREQUAL "ON")
    message(FATAL_ERROR "Chat templates: ${rlx_no_jinja}, or configure with -DRLX_JINJA=OFF")
  endif()
endif()

if(NOT rlx_no_jinja)
  set(RLX_HAS_JINJA 1)
  # The presets' builds share it: the crate is compiled alike in all of them.
  set(rlx_jinja_build "${PROJECT_BINARY_DIR}/jinja")
  get_filename_component(builds "${PROJECT_BINARY_DIR}" DIRECTORY)
  if(builds STREQUAL "${PROJECT_SOURCE_DIR}/build")
    set(rlx_jinja_build "${builds}/jinja")
  endif()
  set(rlx_jinja_library "${rlx_jinja_build}/target/${rlx_jinja_target}/release/librlx_jinja.a")
  cmake_path(NORMAL_PATH rlx_jinja_library)
  file(GLOB rlx_jinja_sources CONFIGURE_DEPENDS "${rlx_jinja_folder}/src/*.rs")
  # A home of its own: what a user's configuration says of registries and flags has no say here.
  add_custom_command(OUTPUT "${rlx_jinja_library}"
    COMMAND "${CMAKE_COMMAND}" -E env "CARGO_HOME=${rlx_jinja_build}/home" "CARGO_TARGET_DIR=${rlx_jinja_build}/target"
      "${CARGO}" build --quiet --release --frozen
      "$<$<BOOL:${rlx_jinja_target}>:--target=${rlx_jinja_target}>"
      --config "source.crates-io.replace-with='rlx'" --config "source.rlx.directory='${rlx_jinja_crates}'"
    WORKING_DIRECTORY "${rlx_jinja_folder}"
    DEPENDS ${rlx_jinja_sources} "${rlx_jinja_folder}/Cargo.toml" "${rlx_jinja_folder}/Cargo.lock"
    COMMENT "Compiling the engine of chat templates" VERBATIM COMMAND_EXPAND_LISTS)
  add_custom_target(rlx_jinja_library DEPENDS "${rlx_jinja_library}")
  add_library(rlx_jinja STATIC IMPORTED)
  get_filename_component(rlx_jinja_output "${rlx_jinja_library}" DIRECTORY)
  file(MAKE_DIRECTORY "${rlx_jinja_output}")
  set_target_properties(rlx_jinja PROPERTIES IMPORTED_LOCATION "${rlx_jinja_library}")
  add_dependencies(rlx_jinja rlx_jinja_library)
  if(APPLE)
    target_link_libraries(rlx_dependencies INTERFACE "-Wl,-load_hidden,${rlx_jinja_library}")
  else()
    target_link_libraries(rlx_dependencies INTERFACE rlx_jinja)
    # Nothing of Rust is to be seen from outside.
    target_link_options(rlx_dependencies INTERFACE "-Wl,--exclude-libs,librlx_jinja.a")
  endif()
  # What the engine consists of, for the list of licences: its crates without those that only run while it is compiled, and
  # Rust's standard library.
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "CARGO_HOME=${rlx_jinja_build}/home" "${CARGO}" tree --frozen
      --edges normal,no-proc-macro --prefix none --config "source.crates-io.replace-with='rlx'"
      --config "source.rlx.directory='${rlx_jinja_crates}'"
    WORKING_DIRECTORY "${rlx_jinja_folder}" OUTPUT_VARIABLE crates COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[a-z0-9_-]+ v[0-9][^ \n]*" crates "${crates}")
  list(REMOVE_DUPLICATES crates)
  foreach(crate IN LISTS crates)
    string(REPLACE " v" "-" crate "${crate}")
    if(NOT crate MATCHES "^rlx_jinja-")
      rlx_contains(library crate "${rlx_jinja_crates}/${crate}")
    endif()
  endforeach()
  get_filename_component(cargo_folder "${CARGO}" DIRECTORY)
  find_program(RUSTC rustc HINTS "${cargo_folder}")
  execute_process(COMMAND "${RUSTC}" --print sysroot WORKING_DIRECTORY "${rlx_jinja_folder}"
    OUTPUT_VARIABLE rust_sysroot OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  rlx_contains(library rust "${rust_sysroot}")
  message(STATUS "Chat templates: minijinja, compiled by cargo ${cargo_version} (${CARGO})")
else()
  message(STATUS "Chat templates: none, ${rlx_no_jinja}")
endif()
set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/io/chat_template.cpp" APPEND PROPERTY
  COMPILE_DEFINITIONS "RLX_HAS_JINJA=${RLX_HAS_JINJA}")
