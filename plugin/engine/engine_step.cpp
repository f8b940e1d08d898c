// SPDX-License-Identifier: Apache-2.0
// From a loss to an update: the loss scale, whether a step's gradients may be applied, clipping.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "plugin/engine/engine.h"
#include "plugin/engine/model_inventory.h"
#include "plugin/optimizer/kernels/norm.h"
#include "zero/step_report.h"

namespace zero {

void Engine::backward(const at::Tensor& loss, bool retain_graph) {
  const double scale = scaler_.scale();
  const ScaledPasses passes(scale);
  if (scale == 1.0) {
    loss.backward({}, retain_graph);
    return;
  }
  loss_ = loss.detach();
  // An fp16 loss would overflow as soon as it is scaled.
  const bool narrow = c10::elementSize(loss.scalar_type()) < sizeof(float);
  ((narrow ? loss.to(at::kFloat) : loss) * scale).backward({}, retain_graph);
}

StepReport Engine::step(const torch::optim::Optimizer* optimizer) {
  require_setup("step()");
  Selection of;
  if (optimizer != nullptr) of = optimizers_->index_of(*optimizer);
  if (clock_) clock_->step_begins();
  pages_->meet("step()");
  pages_->reclaim();
  gradients_->accept_changes();
  gradients_->finish();
  StepReport report;
  report.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  const double max_norm = config_.gradient_clipping.read(Consumer::kGradients);
  const auto policy = config_.nonfinite_gradients.read(Consumer::kGradients);
  if (max_norm > 0 || policy != NonfiniteGradients::kApply) {
    report.gradient_norm = gradients_->norm(of);
  }
  if (max_norm > 0) {
    report.clip_coefficient = kernels::clip_coefficient(report.gradient_norm, max_norm);
  }
  report.applied = accept(report.gradient_norm, policy);
  if (clock_) clock_->reduced();
  if (report.applied) {
    report.update_calls = optimizers_->step(*gradients_, world_->control(),
                                            static_cast<float>(report.clip_coefficient), of);
    report.update_kernel = optimizers_->kernels_run(of);
    for (size_t i = 0; i < steps_.size(); ++i) steps_[i] += !of || *of == static_cast<int>(i);
    world_->whereabouts().count_update();
  }
  report.step = of ? steps_[*of] : *std::max_element(steps_.begin(), steps_.end());
  report.skipped = scaler_.overflows();
  report.loss_scale = scaler_.scale();
  gradients_->clear(of);
  if (clock_) report.times = clock_->step_ends();
  check_consulted();
  return report;
}

bool Engine::accept(double gradient_norm, NonfiniteGradients policy) {
  if (policy == NonfiniteGradients::kApply) return true;
  const bool overflow = !std::isfinite(gradient_norm);
  if (overflow && policy == NonfiniteGradients::kError) {
    gradients_->clear();
    TORCH_CHECK(false, "LibZeRO: the gradient norm is ", gradient_norm,
                ", so some gradient is not finite; nothing was changed. Set nonfinite_gradients to "
                "skip to leave such steps out.");
  }
  const double scale = scaler_.scale();
  scaler_.update(overflow);
  const auto limit = config_.max_consecutive_overflows.read(Consumer::kGradients);
  if (!overflow) return true;
  if (scaler_.consecutive_overflows() >= limit) fail_for_overflows(gradient_norm);
  TORCH_WARN("LibZeRO: the gradient norm is ", gradient_norm,
             "; this step changes nothing (skipped so far: ", scaler_.overflows(),
             ", loss scale: ", scale, ", next: ", scaler_.scale(), ").");
  return false;
}

void Engine::fail_for_overflows(double gradient_norm) {
  std::ostringstream text;
  text << "LibZeRO: the gradients of " << scaler_.consecutive_overflows()
       << " steps in a row were not finite, so nothing is learnt any more "
       << "(max_consecutive_overflows; the last norm is " << gradient_norm << ", the loss scale "
       << scaler_.scale();
  if (loss_.defined()) text << ", this rank's last loss " << loss_.sum().item<double>();
  text << "). If the loss is not finite itself, look at the data, the learning rate and the model; "
          "if it is, the gradients overflow: use bf16, or a smaller loss scale.";
  gradients_->clear();
  TORCH_CHECK(false, text.str());
}

double Engine::clip_grad_norm_(double max_norm, double norm_type) {
  require_setup("clip_grad_norm_()");
  TORCH_CHECK(max_norm > 0, "LibZeRO: clip_grad_norm_ needs a positive norm, not ", max_norm, ".");
  TORCH_CHECK(norm_type > 0,
              "LibZeRO: clip_grad_norm_ takes a p-norm with p above 0, or infinity, not ",
              norm_type, ".");
  gradients_->accept_changes();
  const double norm = norm_type == 2.0 ? gradients_->norm() : gradients_->norm_of_type(norm_type);
  const float coefficient = kernels::clip_coefficient(norm, max_norm);
  if (coefficient < 1.0f) gradients_->scale(coefficient);
  return norm;
}

void Engine::clip_grad_value_(double clip_value) {
  require_setup("clip_grad_value_()");
  TORCH_CHECK(clip_value >= 0, "LibZeRO: clip_grad_value_ needs a value of at least 0, not ",
              clip_value, ".");
  gradients_->accept_changes();
  gradients_->clamp(clip_value);
}

void Engine::begin_backward() {
  TORCH_CHECK(scaler_.scale() == 1.0 || running_scale() != 1.0,
              "LibZeRO: at precision fp16 the loss must be multiplied with the loss scale (",
              scaler_.scale(),
              "), or small gradients vanish: call strategy.backward(loss) instead of "
              "loss.backward(). (With loss_scale: 1 a plain backward is right.)");
  if (clock_) clock_->pass_is_ours();
  for (const auto& held : models_) {
    if (const auto model = held.lock()) require_known(*model, known_);
  }
  pages_->reclaim();
  // A plain optimizer.step() cannot be seen as a whole; the backward after it ends the first step.
  if (optimizers_->plain_step_seen()) check_consulted();
}

// LibTorch's own step would apply whatever it finds, and tell nobody about it.
void Engine::check_plain_step() {
  TORCH_CHECK(!scaler_.dynamic(),
              "LibZeRO: at precision fp16 with a dynamic loss scale a step must see whether "
              "gradients overflowed: call strategy.step() instead of optimizer.step(). (With a "
              "fixed loss_scale a plain step is right.)");
  const double norm = gradients_->norm();
  TORCH_CHECK(std::isfinite(norm), "LibZeRO: the gradient norm is ", norm, " at loss scale ",
              scaler_.scale(),
              ": this optimizer.step() would ruin the weights. Call strategy.step(), which skips "
              "such a step, or lower loss_scale.");
}

}  // namespace zero
