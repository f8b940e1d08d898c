# libzero: all rooms in one shared library.
get_property(_rooms GLOBAL PROPERTY LIBZERO_ROOMS)
set(_objects)
foreach(_room IN LISTS _rooms)
  list(APPEND _objects $<TARGET_OBJECTS:${_room}>)
endforeach()
add_library(zero SHARED ${_objects})
add_library(LibZeRO::zero ALIAS zero)
set_target_properties(zero PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX)
target_link_libraries(zero PUBLIC LibTorch::cpu PRIVATE zero_torch yaml-cpp Threads::Threads zero_build_options)
target_include_directories(zero PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/plugin/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/strategy/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/trainer_integration/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
