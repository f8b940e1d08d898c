// SPDX-License-Identifier: Apache-2.0
#include "plugin/memory/buffers.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#ifdef LIBZERO_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

namespace zero {

namespace {

// Maps, registers if it is to be pinned, and hands out one block; unregisters and unmaps it when the
// tensor dies.
at::Tensor mapped_zeros(MemoryClass memory_class, int64_t numel, at::ScalarType dtype,
                        bool pinned) {
  const size_t bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK(data != MAP_FAILED, "LibZeRO: ", bytes, " bytes of host memory for ",
              name_of(memory_class), " cannot be mapped: ", std::strerror(errno),
              ". Use more ranks, a smaller model, or less offload.");
  madvise(data, bytes, MADV_HUGEPAGE);  // advice only: systems without huge pages refuse it
  bool registered = false;
#ifdef LIBZERO_CUDA
  const cudaError_t status =
      pinned ? cudaHostRegister(data, bytes, cudaHostRegisterDefault) : cudaSuccess;
  registered = pinned && status == cudaSuccess;
  if (pinned && !registered) {
    (void)cudaGetLastError();
    TORCH_WARN_ONCE(
        "LibZeRO: host memory for ", name_of(memory_class), " could not be pinned (",
        cudaGetErrorString(status),
        "); copies to and from the GPU will be slower. Raise the locked-memory limit (ulimit -l).");
  }
#else
  (void)pinned;
#endif
  const auto release = [bytes, registered](void* pointer) {
#ifdef LIBZERO_CUDA
    if (registered) cudaHostUnregister(pointer);
#endif
    (void)registered;
    munmap(pointer, bytes);
  };
  return at::from_blob(data, {numel}, release, at::TensorOptions().dtype(dtype));
}

}  // namespace

Buffer Buffers::allocate(MemoryClass memory_class, Place place, int64_t numel,
                         at::ScalarType dtype) {
  const bool pinned =
      place == Place::kHost &&
      (memory_class == MemoryClass::kParameterHome ? pinning_.parameters : pinning_.optimizer);
  auto booking = ledger_.book(memory_class, place,
                              numel * static_cast<int64_t>(c10::elementSize(dtype)), pinned);
  const bool map = numel > 0 && place == Place::kHost && device_.is_cuda();
  at::Tensor tensor =
      map ? mapped_zeros(memory_class, numel, dtype, pinned)
          : at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device_of(place)));
  return {std::move(tensor), std::move(booking)};
}

void read_device(MemoryReport& report, at::Device device) {
#ifdef LIBZERO_CUDA
  if (!device.is_cuda()) return;
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  const auto& allocated = stats.allocated_bytes[0];
  report.device_allocated = allocated.current;
  report.device_peak_allocated = allocated.peak;
#else
  (void)report;
  (void)device;
#endif
}

}  // namespace zero
