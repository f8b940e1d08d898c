// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "plugin/gradients/gradients.h"
#include "plugin/optimizer/kernels/norm.h"
#ifdef LIBZERO_CUDA
#include <c10/cuda/CUDAStream.h>

#include "plugin/optimizer/kernels/update_cuda.h"
#endif

namespace zero {

double Gradients::norm(Selection of) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  if (of || !norm_) {
    double squares = local_squares(of);
    if (options_.shard.count > 1) {
      meet_others("the norm of the gradients");
      squares = control_.sum(squares);
    }
    if (of) return std::sqrt(squares);
    norm_ = std::sqrt(squares);
  }
  return *norm_;
}

double Gradients::norm_of_type(double p) {
  at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  finish_locked();
  const bool largest = std::isinf(p);
  at::Tensor result = at::zeros({}, at::kDouble);
  for (const auto& page : pages_) {
    const at::Tensor magnitudes = shard(*page).abs();
    const at::Tensor own =
        largest ? magnitudes.max().to(at::kDouble) : magnitudes.to(at::kDouble).pow_(p).sum();
    result = result.to(own.device());
    result = largest ? at::maximum(result, own) : result + own;
  }
  double value = result.item<double>();
  if (options_.shard.count > 1) {
    meet_others("the norm of the gradients");
    value = largest ? control_.max(value) : control_.sum(value);
  }
  return largest ? value : std::pow(value, 1.0 / p);
}

// Page is added after page, in the same precision, wherever they lie.
double Gradients::local_squares(Selection of) {
  double squares = device_squares(of);
  for (const auto& page : pages_) {
    if (!selected(*page, of)) continue;
    const at::Tensor values = shard(*page);
    if (!values.device().is_cpu()) continue;
    squares += kernels::sum_of_squares_cpu(pool_, values.const_data_ptr<float>(), values.numel());
  }
  return squares;
}

double Gradients::device_squares([[maybe_unused]] Selection of) {
  if (!norm_scratch_.tensor.defined()) return 0.0;
#ifdef LIBZERO_CUDA
  // The device adds; the host waits once.
  at::Tensor result = norm_scratch_.tensor.narrow(0, 0, 1);
  result.zero_();
  const auto stream = c10::cuda::getCurrentCUDAStream(buffers_.device().index()).stream();
  for (const auto& page : pages_) {
    if (!selected(*page, of)) continue;
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
void Gradients::book_norm_scratch([[maybe_unused]] int64_t numel) {
#ifdef LIBZERO_CUDA
  if (pages_.back()->home_.tensor.device().is_cpu()) return;
  const int64_t needed = kernels::sum_of_squares_scratch(numel) + 1;
  if (norm_scratch_.tensor.defined() && norm_scratch_.tensor.numel() >= needed) return;
  norm_scratch_ = buffers_.allocate(MemoryClass::kStaging, Place::kDevice, needed, at::kDouble);
#endif
}

}  // namespace zero
