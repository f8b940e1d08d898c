// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "plugin/gradients/gradients.h"
#include "plugin/optimizer/kernels/norm.h"
#ifdef LIBZERO_CUDA
#include <c10/cuda/CUDAStream.h>

#include "plugin/optimizer/kernels/update_cuda.h"
#endif

namespace zero {

double Gradients::norm() {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  if (!norm_) {
    double squares = local_squares();
    if (options_.shard.count > 1) {
      meet_others("the norm of the gradients");
      squares = control_.sum(squares);
    }
    norm_ = std::sqrt(squares);
  }
  return *norm_;
}

// Shards on the device are those of the first pages (ParameterPages::place_optimizer). So page is
// added after page, in the same precision, wherever they lie.
double Gradients::local_squares() {
  double squares = device_squares();
  for (const auto& page : pages_) {
    const at::Tensor values = shard(*page);
    if (!values.device().is_cpu()) continue;
    squares += kernels::sum_of_squares_cpu(pool_, values.const_data_ptr<float>(), values.numel());
  }
  return squares;
}

double Gradients::device_squares() {
  if (!norm_scratch_.tensor.defined()) return 0.0;
#ifdef LIBZERO_CUDA
  // The device adds; the host waits once.
  at::Tensor result = norm_scratch_.tensor.narrow(0, 0, 1);
  result.zero_();
  const auto stream = c10::cuda::getCurrentCUDAStream(buffers_.device().index()).stream();
  for (const auto& page : pages_) {
    const at::Tensor values = shard(*page);
    if (!values.device().is_cuda()) continue;
    kernels::sum_of_squares_cuda(values.const_data_ptr<float>(), values.numel(),
                                 norm_scratch_.tensor.data_ptr<double>() + 1,
                                 result.data_ptr<double>(), stream);
  }
  return result.item<double>();
#else
  TORCH_INTERNAL_ASSERT(false, "a gradient on ", buffers_.device(), " in a build without CUDA");
#endif
}

// One number for the sum, then the kernel's scratch for the largest shard on the device.
void Gradients::allocate_norm_scratch() {
#ifdef LIBZERO_CUDA
  int64_t scratch = 0;
  for (const auto& page : pages_) {
    if (!page->home_.tensor.device().is_cuda()) continue;
    scratch = std::max(scratch, kernels::sum_of_squares_scratch(page->layout().shard_numel));
  }
  if (scratch == 0) return;
  norm_scratch_ =
      buffers_.allocate(MemoryClass::kStaging, Place::kDevice, scratch + 1, at::kDouble);
#endif
}

}  // namespace zero
