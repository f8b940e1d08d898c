// SPDX-License-Identifier: Apache-2.0
// GPT-J in plain torch::nn: rotary positions on a part of each head, attention and MLP in parallel
// on one LayerNorm, an output head of its own with a bias. Parameter names are those of the Hugging
// Face checkpoint. It knows nothing of how its weights are held.
//
// Sizes of GPT-J-6B are the defaults (B. Wang and A. Komatsuzaki, 2021).
#pragma once

#include <torch/arg.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

namespace gptj {

struct GPTJOptions {
  TORCH_ARG(int64_t, vocabulary) = 50400;
  TORCH_ARG(int64_t, context) = 2048;  // tokens
  TORCH_ARG(int64_t, width) = 4096;
  TORCH_ARG(int64_t, layers) = 28;
  TORCH_ARG(int64_t, heads) = 16;
  TORCH_ARG(int64_t, rotary) = 64;  // of a head's width; even
};

// Keys and values of the tokens seen so far, one pair a layer: [rows, heads, tokens, head width].
struct Cache {
  struct Layer {
    torch::Tensor keys, values;
  };
  std::vector<Layer> layers;
  int64_t tokens() const { return layers.empty() ? 0 : layers.front().keys.size(2); }
};

class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const GPTJOptions& options);
  // x: [rows, tokens, width]; appends to `seen` when it is given.
  torch::Tensor forward(const torch::Tensor& x, Cache::Layer* seen);

 private:
  torch::Tensor heads(const torch::Tensor& x) const;
  torch::Tensor rotate(const torch::Tensor& x, int64_t first_position) const;

  int64_t heads_, rotary_;
  torch::nn::Linear q_, k_, v_, out_;
};
TORCH_MODULE(Attention);

class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const GPTJOptions& options);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Linear in_, out_;
};
TORCH_MODULE(Mlp);

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GPTJOptions& options);
  torch::Tensor forward(const torch::Tensor& x, Cache::Layer* seen);

 private:
  torch::nn::LayerNorm norm_;
  Attention attention_;
  Mlp mlp_;
};
TORCH_MODULE(Block);

// What the checkpoint calls `transformer`.
class BodyImpl : public torch::nn::Module {
 public:
  explicit BodyImpl(const GPTJOptions& options);
  torch::Tensor forward(const torch::Tensor& tokens, Cache* cache);

 private:
  torch::nn::Embedding embedding_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Body);

class GPTJImpl : public torch::nn::Module {
 public:
  explicit GPTJImpl(const GPTJOptions& options = {});
  // tokens: [rows, tokens] int64. With a cache they follow the tokens it holds, and are added to
  // it. Returns logits, [rows, tokens, vocabulary], in the weights' dtype.
  torch::Tensor forward(const torch::Tensor& tokens, Cache* cache = nullptr);

 private:
  Body body_;
  torch::nn::Linear head_;
};
TORCH_MODULE(GPTJ);

}  // namespace gptj
