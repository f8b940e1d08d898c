// SPDX-License-Identifier: Apache-2.0
// A byte-level GPT in plain torch::nn: pre-LayerNorm blocks, causal attention, learned positions,
// and an output head that is the token embedding's weight (tied). It knows nothing of how it is
// trained.
#pragma once

#include <torch/arg.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace gpt {

struct GPTOptions {
  TORCH_ARG(int64_t, vocabulary) = 256;  // one token is one byte
  TORCH_ARG(int64_t, context) = 128;     // tokens
  TORCH_ARG(int64_t, width) = 256;
  TORCH_ARG(int64_t, layers) = 4;
  TORCH_ARG(int64_t, heads) = 4;
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GPTOptions& options);
  torch::Tensor forward(torch::Tensor x);  // [rows, tokens, width] -> the same

 private:
  torch::Tensor attention(const torch::Tensor& x);

  int64_t heads_;
  torch::nn::LayerNorm ln_attention_, ln_mlp_;
  torch::nn::Linear qkv_, attention_out_, up_, down_;
};
TORCH_MODULE(Block);

class GPTImpl : public torch::nn::Module {
 public:
  explicit GPTImpl(const GPTOptions& options = {});
  // tokens: [rows, tokens] int64, at most context() a row. Returns logits, [rows, tokens,
  // vocabulary].
  torch::Tensor forward(const torch::Tensor& tokens);
  // Mean cross-entropy in nats per token, a scalar in fp32. target: [rows, tokens] int64.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& target);

  // How blocks are run from now on: as checkpointed regions, for example.
  using BlockRunner = std::function<torch::Tensor(Block block, torch::Tensor x)>;
  void run_blocks_by(BlockRunner runner) { run_block_ = std::move(runner); }

  int64_t context() const { return context_; }
  torch::nn::Embedding wte{nullptr}, wpe{nullptr};  // token and position embeddings

 private:
  int64_t context_;
  BlockRunner run_block_ = [](Block block, torch::Tensor x) {
    return block->forward(std::move(x));
  };
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm ln_out_;
};
TORCH_MODULE(GPT);

}  // namespace gpt
