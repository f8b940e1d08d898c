# Compiler launcher, warnings and sanitizers, as properties of our targets only.
find_program(LIBZERO_CCACHE ccache)
if(LIBZERO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${LIBZERO_CCACHE}")
endif()

# Programs and libraries share one precompiled header, which must be compiled alike: programs are built as -fPIC too.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)

add_library(zero_build_options INTERFACE)
target_compile_features(zero_build_options INTERFACE cxx_std_20)
target_compile_options(zero_build_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
if(LIBZERO_WERROR)
  target_compile_options(zero_build_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(LIBZERO_SANITIZE)
  target_compile_options(zero_build_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LIBZERO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined>)
  target_link_options(zero_build_options INTERFACE -fsanitize=${LIBZERO_SANITIZE})
endif()
