# A room of the house is an object library with a name (zero_paging, zero_memory, ...): it compiles and is tested by
# itself, and libzero is all rooms together.

# zero_room(<name> SOURCES ... [DEPENDS rooms ...] [TORCH])
# TORCH rooms see LibTorch's headers and share one precompiled header.
function(zero_room name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(zero_${name} OBJECT ${ARG_SOURCES})
  set_target_properties(zero_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(zero_${name} PUBLIC
    "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/plugin/include"
    "${PROJECT_SOURCE_DIR}/strategy/include" "${PROJECT_SOURCE_DIR}/trainer_integration/include")
  target_link_libraries(zero_${name} PRIVATE zero_build_options)
  foreach(room IN LISTS ARG_DEPENDS)
    # Usage requirements only: object files reach just the direct user of an object library.
    target_link_libraries(zero_${name} PUBLIC zero_${room})
  endforeach()
  if(ARG_TORCH)
    target_link_libraries(zero_${name} PUBLIC zero_torch)
    zero_use_torch_pch(zero_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY LIBZERO_ROOMS zero_${name})
endfunction()

# One precompiled header of LibTorch for all targets that include it; a file that includes torch/torch.h costs about
# 25 s without it.
function(zero_use_torch_pch target)
  if(NOT TARGET zero_torch_pch)
    file(WRITE "${PROJECT_BINARY_DIR}/zero_torch_pch.cpp" "")
    add_library(zero_torch_pch OBJECT "${PROJECT_BINARY_DIR}/zero_torch_pch.cpp")
    set_target_properties(zero_torch_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(zero_torch_pch PRIVATE zero_build_options zero_torch)
    target_precompile_headers(zero_torch_pch PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM zero_torch_pch)
endfunction()
