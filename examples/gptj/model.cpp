// SPDX-License-Identifier: Apache-2.0
#include "examples/gptj/model.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

namespace gptj {

namespace {

torch::nn::Linear without_bias(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

}  // namespace

AttentionImpl::AttentionImpl(const GPTJOptions& options)
    : heads_(options.heads()),
      rotary_(options.rotary()),
      q_(register_module("q_proj", without_bias(options.width(), options.width()))),
      k_(register_module("k_proj", without_bias(options.width(), options.width()))),
      v_(register_module("v_proj", without_bias(options.width(), options.width()))),
      out_(register_module("out_proj", without_bias(options.width(), options.width()))) {}

// [rows, tokens, width] -> [rows, heads, tokens, head width]
torch::Tensor AttentionImpl::heads(const torch::Tensor& x) const {
  return x.view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
}

// Turns neighbouring pairs of the first `rotary_` values of each head by an angle that grows with
// the position (RoFormer, Su et al. 2021; the interleaved form).
torch::Tensor AttentionImpl::rotate(const torch::Tensor& x, int64_t first_position) const {
  const auto options = torch::TensorOptions().dtype(torch::kFloat).device(x.device());
  const auto pairs = torch::arange(0, rotary_, 2, options);
  const auto frequencies = torch::pow(10000.0, pairs / static_cast<double>(rotary_)).reciprocal();
  const auto positions = torch::arange(first_position, first_position + x.size(2), options);
  const auto angles = torch::outer(positions, frequencies);  // [tokens, pairs]
  const auto sine = angles.sin().to(x.scalar_type());
  const auto cosine = angles.cos().to(x.scalar_type());

  const auto turned = x.narrow(-1, 0, rotary_).unflatten(-1, {rotary_ / 2, 2});
  const auto first = turned.select(-1, 0);
  const auto second = turned.select(-1, 1);
  const auto rotated =
      torch::stack({first * cosine - second * sine, second * cosine + first * sine}, -1)
          .flatten(-2);
  return torch::cat({rotated, x.narrow(-1, rotary_, x.size(-1) - rotary_)}, -1);
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x, Cache::Layer* seen) {
  const int64_t before = seen != nullptr && seen->keys.defined() ? seen->keys.size(2) : 0;
  const auto queries = rotate(heads(q_(x)), before);
  auto keys = rotate(heads(k_(x)), before);
  auto values = heads(v_(x));
  if (before > 0) {
    keys = torch::cat({seen->keys, keys}, 2);
    values = torch::cat({seen->values, values}, 2);
  }
  if (seen != nullptr) *seen = {keys, values};
  // A token sees itself and all before it; the cached ones all come before the new ones.
  const int64_t fresh = x.size(1);
  std::optional<torch::Tensor> mask;
  if (before > 0 && fresh > 1) {
    mask = torch::ones({fresh, before + fresh}, x.options().dtype(torch::kBool)).tril(before);
  }
  const auto attended = torch::scaled_dot_product_attention(
      queries, keys, values, mask, /*dropout_p=*/0.0, /*is_causal=*/before == 0 && fresh > 1);
  return out_(attended.transpose(1, 2).reshape(x.sizes()));
}

MlpImpl::MlpImpl(const GPTJOptions& options)
    : in_(register_module("fc_in", torch::nn::Linear(options.width(), 4 * options.width()))),
      out_(register_module("fc_out", torch::nn::Linear(4 * options.width(), options.width()))) {}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  return out_(torch::gelu(in_(x), /*approximate=*/"tanh"));
}

BlockImpl::BlockImpl(const GPTJOptions& options)
    : norm_(register_module("ln_1",
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width()})))),
      attention_(register_module("attn", Attention(options))),
      mlp_(register_module("mlp", Mlp(options))) {}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, Cache::Layer* seen) {
  const auto normal = norm_(x);
  return attention_(normal, seen) + mlp_(normal) + x;
}

BodyImpl::BodyImpl(const GPTJOptions& options)
    : embedding_(
          register_module("wte", torch::nn::Embedding(options.vocabulary(), options.width()))),
      blocks_(register_module("h", torch::nn::ModuleList())),
      norm_(register_module("ln_f",
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width()})))) {
  for (int64_t i = 0; i < options.layers(); ++i) blocks_->push_back(Block(options));
}

torch::Tensor BodyImpl::forward(const torch::Tensor& tokens, Cache* cache) {
  if (cache != nullptr) cache->layers.resize(blocks_->size());
  auto x = embedding_(tokens);
  for (size_t i = 0; i < blocks_->size(); ++i) {
    x = blocks_[i]->as<BlockImpl>()->forward(x, cache != nullptr ? &cache->layers[i] : nullptr);
  }
  return norm_(x);
}

GPTJImpl::GPTJImpl(const GPTJOptions& options)
    : body_(register_module("transformer", Body(options))),
      head_(register_module("lm_head", torch::nn::Linear(options.width(), options.vocabulary()))) {}

torch::Tensor GPTJImpl::forward(const torch::Tensor& tokens, Cache* cache) {
  return head_(body_(tokens, cache));
}

}  // namespace gptj
