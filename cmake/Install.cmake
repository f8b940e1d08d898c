# Install rules: libzero, its launcher, the public headers, and the CMake package LibZeRO.
include(CMakePackageConfigHelpers)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/LibZeRO")

install(TARGETS zero EXPORT LibZeROTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS zero_launch zero_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
foreach(_folder plugin strategy trainer_integration)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${_folder}/include/zero" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")
endforeach()
if(TARGET zero_testing)
  install(TARGETS zero_testing EXPORT LibZeROTestingTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/strategy/testing/include/zero" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT LibZeROTestingTargets NAMESPACE LibZeRO:: DESTINATION "${_package_dir}")
endif()
install(EXPORT LibZeROTargets NAMESPACE LibZeRO:: DESTINATION "${_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/LibZeROConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/LibZeROConfig.cmake" INSTALL_DESTINATION "${_package_dir}")
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/LibZeROConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/LibZeROConfig.cmake" "${PROJECT_BINARY_DIR}/LibZeROConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/TorchVersion.cmake"
  DESTINATION "${_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
