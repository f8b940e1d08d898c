# Finds LibTorch without Torch's own package file: that one is fatal for a CUDA build of LibTorch on a machine
# without a CUDA toolkit, where a CPU-only program links and runs very well.
#
# Input:   LIBZERO_TORCH_ROOT (CMake or environment): the folder that holds include/ and lib/, from a wheel
#          (.../site-packages/torch) or an unpacked libtorch archive. Default: the local environment of scripts/bootstrap.
# Output:  LibTorch_FOUND, LibTorch_VERSION, LibTorch_ROOT, LibTorch_HAS_CUDA (this LibTorch was built with CUDA), LibTorch_RUNTIME_DIRS
# Targets: LibTorch::cpu; LibTorch::cuda where the wheel has it and a CUDA toolkit is on this machine.
include(FindPackageHandleStandardArgs)

set(_libtorch_hints ${LIBZERO_TORCH_ROOT} $ENV{LIBZERO_TORCH_ROOT})
if(Torch_DIR)
  list(APPEND _libtorch_hints "${Torch_DIR}/../../..")
endif()
if(NOT _libtorch_hints)
  file(GLOB _libtorch_hints "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
endif()
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _libtorch_hints "${_prefix}" "${_prefix}/../..")
endforeach()

find_path(LibTorch_ROOT NAMES include/ATen/ATen.h HINTS ${_libtorch_hints} NO_DEFAULT_PATH)
if(LibTorch_ROOT)
  get_filename_component(LibTorch_ROOT "${LibTorch_ROOT}" REALPATH)
  file(GLOB _version_headers "${LibTorch_ROOT}/include/torch/headeronly/version.h"
    "${LibTorch_ROOT}/include/torch/csrc/api/include/torch/version.h")
  foreach(_header IN LISTS _version_headers)
    file(STRINGS "${_header}" _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    foreach(_line IN LISTS _lines)
      if(_line MATCHES "TORCH_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)")
        set(_v_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
      endif()
    endforeach()
  endforeach()
  set(LibTorch_VERSION "${_v_MAJOR}.${_v_MINOR}.${_v_PATCH}")
  find_library(LibTorch_c10 c10 HINTS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_torch_cpu torch_cpu HINTS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_torch torch HINTS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_c10_cuda c10_cuda HINTS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_torch_cuda torch_cuda HINTS "${LibTorch_ROOT}/lib" NO_DEFAULT_PATH)
  set(LibTorch_HAS_CUDA FALSE)
  if(LibTorch_torch_cuda)
    set(LibTorch_HAS_CUDA TRUE)
  endif()
  # The CUDA libraries that a wheel brings lie beside it; the linker must see them to check the wheel's own needs.
  file(GLOB LibTorch_RUNTIME_DIRS "${LibTorch_ROOT}/../nvidia/*/lib")
  list(PREPEND LibTorch_RUNTIME_DIRS "${LibTorch_ROOT}/lib")
endif()

find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT LibTorch_torch_cpu LibTorch_c10
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/bootstrap, or set LIBZERO_TORCH_ROOT to the folder that holds LibTorch's include/ and lib/")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
    "${LibTorch_ROOT}/include" "${LibTorch_ROOT}/include/torch/csrc/api/include")
  target_link_libraries(LibTorch::cpu INTERFACE "${LibTorch_torch_cpu}" "${LibTorch_c10}")
  foreach(_dir IN LISTS LibTorch_RUNTIME_DIRS)
    target_link_options(LibTorch::cpu INTERFACE "LINKER:-rpath-link,${_dir}")
  endforeach()
  target_compile_features(LibTorch::cpu INTERFACE cxx_std_20)
endif()
if(LibTorch_FOUND AND LibTorch_HAS_CUDA AND CUDAToolkit_FOUND AND NOT TARGET LibTorch::cuda)
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  # torch_cuda registers its kernels when it is loaded; nothing refers to it by name, so the linker must be told to keep it.
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu
    "-Wl,--no-as-needed,${LibTorch_torch_cuda},${LibTorch_c10_cuda},--as-needed" CUDA::cudart)
endif()
