// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/model.h"

#include <torch/torch.h>

#include <cmath>

namespace gpt {
namespace {

constexpr double kInitDeviation = 0.02;  // GPT-2's

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

BlockImpl::BlockImpl(const GPTOptions& options)
    : heads_(options.heads()),
      ln_attention_(register_module("ln_attention", layer_norm(options.width()))),
      ln_mlp_(register_module("ln_mlp", layer_norm(options.width()))),
      qkv_(register_module("qkv", torch::nn::Linear(options.width(), 3 * options.width()))),
      attention_out_(
          register_module("attention_out", torch::nn::Linear(options.width(), options.width()))),
      up_(register_module("up", torch::nn::Linear(options.width(), 4 * options.width()))),
      down_(register_module("down", torch::nn::Linear(4 * options.width(), options.width()))) {
  TORCH_CHECK(options.width() % options.heads() == 0, "GPT: width ", options.width(),
              " cannot be divided among ", options.heads(), " heads");
}

torch::Tensor BlockImpl::attention(const torch::Tensor& x) {
  const int64_t rows = x.size(0), tokens = x.size(1), width = x.size(2);
  // [rows, tokens, 3 * width] -> three of [rows, heads, tokens, width / heads]
  auto qkv = qkv_(x).view({rows, tokens, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
  auto y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                            /*dropout_p=*/0.0, /*is_causal=*/true);
  return attention_out_(y.transpose(1, 2).reshape({rows, tokens, width}));
}

torch::Tensor BlockImpl::forward(torch::Tensor x) {
  x = x + attention(ln_attention_(x));
  return x + down_(torch::gelu(up_(ln_mlp_(x)), "tanh"));
}

GPTImpl::GPTImpl(const GPTOptions& options)
    : wte(register_module("wte", torch::nn::Embedding(options.vocabulary(), options.width()))),
      wpe(register_module("wpe", torch::nn::Embedding(options.context(), options.width()))),
      context_(options.context()),
      blocks_(register_module("blocks", torch::nn::ModuleList())),
      ln_out_(register_module("ln_out", layer_norm(options.width()))) {
  for (int64_t i = 0; i < options.layers(); ++i) blocks_->push_back(Block(options));
  torch::NoGradGuard no_grad;
  // Each block adds twice to the residual stream; its outputs start smaller so that depth does not
  // blow it up.
  const double residual = kInitDeviation / std::sqrt(2.0 * static_cast<double>(options.layers()));
  for (auto& entry : named_parameters()) {
    const std::string& name = entry.key();
    torch::Tensor& parameter = entry.value();
    if (parameter.dim() < 2) {
      if (name.ends_with("bias")) parameter.zero_();
      continue;
    }
    const bool adds_to_residual =
        name.find("attention_out.") != std::string::npos || name.find("down.") != std::string::npos;
    parameter.normal_(0.0, adds_to_residual ? residual : kInitDeviation);
  }
}

torch::Tensor GPTImpl::forward(const torch::Tensor& tokens) {
  TORCH_CHECK(tokens.dim() == 2 && tokens.size(1) <= context_,
              "GPT: expected [rows, tokens] with at most ", context_, " tokens a row, got ",
              tokens.sizes());
  auto positions = torch::arange(tokens.size(1), tokens.options());
  auto x = wte(tokens) + wpe(positions);
  for (const auto& block : *blocks_) {
    x = run_block_(Block(std::dynamic_pointer_cast<BlockImpl>(block)), x);
  }
  return torch::linear(ln_out_(x), wte->weight);
}

torch::Tensor GPTImpl::loss(const torch::Tensor& tokens, const torch::Tensor& target) {
  auto logits = forward(tokens);
  // The sum over the vocabulary wants more than the 8 bits of a bf16 logit.
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1).to(torch::kFloat),
                                              target.flatten());
}

}  // namespace gpt
