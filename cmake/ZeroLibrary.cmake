# libzero: all rooms in one shared library.

# Programs of this build, tests and examples included, find LibTorch without LD_LIBRARY_PATH.
set(CMAKE_BUILD_RPATH "${LibTorch_RUNTIME_DIRS}")

get_property(_rooms GLOBAL PROPERTY LIBZERO_ROOMS)
set(_objects)
foreach(_room IN LISTS _rooms)
  list(APPEND _objects $<TARGET_OBJECTS:${_room}>)
endforeach()
add_library(zero SHARED ${_objects})
add_library(LibZeRO::zero ALIAS zero)
# A wheel lies outside every library path, so the installed libzero keeps the way to its LibTorch too.
set_target_properties(zero PROPERTIES LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "$ORIGIN;${LibTorch_RUNTIME_DIRS}")
# What only libzero needs; behind an interface target, the installed package does not ask its users for it.
add_library(zero_private INTERFACE)
target_link_libraries(zero_private INTERFACE zero_torch zero_build_options yaml-cpp)
target_link_libraries(zero PUBLIC LibTorch::cpu PRIVATE zero_private)
target_include_directories(zero PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/plugin/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/strategy/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/trainer_integration/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
