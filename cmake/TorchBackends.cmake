# What LibTorch's distributed headers need besides LibTorch itself. ProcessGroupGloo.hpp wants gloo's declarations
# (nothing of gloo is linked: LibTorch carries it), ProcessGroupNCCL.hpp wants nccl.h.
if(LIBZERO_CUDA AND NOT LibTorch_HAS_CUDA)
  set(LIBZERO_CUDA OFF)
  message(STATUS "LibZeRO: CPU only (this LibTorch was built without CUDA)")
endif()

find_path(LIBZERO_GLOO_INCLUDE gloo/transport/device.h REQUIRED)
add_library(zero_torch INTERFACE)
target_link_libraries(zero_torch INTERFACE LibTorch::cpu Threads::Threads)
target_compile_definitions(zero_torch INTERFACE USE_C10D_GLOO)
if(LIBZERO_CUDA)
  file(GLOB _nccl_hints "${LibTorch_ROOT}/../nvidia/nccl/include")
  find_path(LIBZERO_NCCL_INCLUDE nccl.h HINTS ${_nccl_hints} ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  target_link_libraries(zero_torch INTERFACE LibTorch::cuda)
  target_include_directories(zero_torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} "${LIBZERO_NCCL_INCLUDE}")
  target_compile_definitions(zero_torch INTERFACE USE_C10D_NCCL LIBZERO_CUDA)
endif()
