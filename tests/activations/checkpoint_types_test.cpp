// SPDX-License-Identifier: Apache-2.0
// Regions take and return whatever functions do.
#include <gmock/gmock.h>

#include <map>
#include <span>

#include "activations/networks.h"
#include "zero/checkpoint.h"

namespace zero::testing {

struct CellState {
  at::Tensor hidden, cell;
  int steps = 0;
};
template <class Visit>
void visit_tensors(CellState& state, Visit&& visit) {
  visit(state.hidden);
  visit(state.cell);
}

struct Opaque {
  at::Tensor scale;
};

namespace {

// The gradient of `x` through forward(x), and its value.
template <class Forward>
std::vector<at::Tensor> value_and_gradient(const Forward& forward) {
  const at::Tensor x = random_input().requires_grad_();
  const at::Tensor y = forward(x);
  y.square().sum().backward();
  return {y.detach(), x.grad()};
}

// G046
TEST(CheckpointTypes, NoneNumbersAndIdsPassThrough) {
  const at::Tensor ids = torch::arange(8, at::TensorOptions(at::kLong).device(test_device()));
  const auto block = [](const at::Tensor& x, const std::optional<at::Tensor>& mask, bool negate,
                        int times, const at::Tensor& rows) {
    TORCH_CHECK(rows.scalar_type() == at::kLong);
    at::Tensor y = torch::tanh(mask ? x * *mask : x).index_select(0, rows.flip(0));
    for (int i = 0; i < times; ++i) y = torch::sin(y);
    return negate ? -y : y;
  };
  const auto expected =
      value_and_gradient([&](auto x) { return block(x, std::nullopt, true, 3, ids); });
  const auto got =
      value_and_gradient([&](auto x) { return checkpoint(block, x, std::nullopt, true, 3, ids); });
  EXPECT_EQ(difference(got, expected), "");
}

TEST(CheckpointTypes, ContainersAreLookedInto) {
  using Parts = std::map<std::string, std::vector<at::Tensor>>;
  const auto block = [](Parts parts, std::pair<at::Tensor, int> scaled,
                        std::variant<int, at::Tensor> either, at::TensorList list,
                        std::span<const double> factors, std::string_view which) {
    at::Tensor y = scaled.first.exp() * scaled.second + std::get<at::Tensor>(either).tanh();
    for (const auto& part : parts.at(std::string(which))) y = y + part.sigmoid();
    for (const auto& one : list) y = y * one.cos() * factors[0];
    return y;
  };
  const auto forward = [&](const at::Tensor& x, auto call) {
    const std::vector<at::Tensor> list{x * 2, x * 3};
    const std::vector<double> factors{0.5};
    return call(Parts{{"a", {x, x * 4}}, {"b", {}}}, std::pair(x * 5, 2),
                std::variant<int, at::Tensor>(x * 6), at::TensorList(list),
                std::span<const double>(factors), std::string_view(std::string("a")));
  };
  const auto expected = value_and_gradient([&](auto x) { return forward(x, block); });
  const auto got = value_and_gradient([&](auto x) {
    return forward(x, [&](auto... arguments) { return checkpoint(block, arguments...); });
  });
  EXPECT_EQ(difference(got, expected), "");
}

TEST(CheckpointTypes, StructsPassInAndOut) {
  const auto cell = [](CellState state, const Opaque& opaque) {
    state.hidden = torch::tanh(state.hidden) * state.cell * opaque.scale;
    state.cell = torch::sigmoid(state.hidden);
    ++state.steps;
    return state;
  };
  const auto forward = [&](const at::Tensor& x, auto call) {
    CellState state{x, x * 2, 0};
    for (int i = 0; i < 3; ++i) state = call(state, Opaque{x.detach()});
    EXPECT_EQ(state.steps, 3);
    return state.cell;
  };
  const auto expected = value_and_gradient([&](auto x) { return forward(x, cell); });
  const auto got = value_and_gradient([&](auto x) {
    return forward(x, [&](auto... arguments) { return checkpoint(cell, arguments...); });
  });
  EXPECT_EQ(difference(got, expected), "");
}

TEST(CheckpointTypes, ArgumentsOfStructsDoNotStayOnTheDevice) {
  const at::Tensor x = random_input().requires_grad_();
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> hidden;
  at::Tensor y;
  {
    CellState state{torch::tanh(x), x, 0};
    y = checkpoint(
        [&](at::Tensor outer) {
          CellState inner{torch::tanh(outer), outer, 0};
          hidden = inner.hidden.storage().getWeakStorageImpl();
          return checkpoint([](const CellState& s) { return s.hidden.exp() * s.cell; }, inner);
        },
        x);
  }
  ASSERT_TRUE(hidden);
  EXPECT_TRUE(hidden->expired()) << "an inner region has kept what visit_tensors shows";
  y.sum().backward();
}

TEST(CheckpointTypes, TuplesAndVectorsComeBack) {
  const auto block = [](const at::Tensor& x, int64_t parts) {
    return std::tuple(x.tanh().chunk(parts, 1), x.exp().sum(), static_cast<double>(parts));
  };
  const auto forward = [](const auto& result) {
    return at::cat(std::get<0>(result), 1) * std::get<1>(result) * std::get<2>(result);
  };
  const auto expected = value_and_gradient([&](auto x) { return forward(block(x, 4)); });
  const auto got =
      value_and_gradient([&](auto x) { return forward(checkpoint(block, x, int64_t{4})); });
  EXPECT_EQ(difference(got, expected), "");
}

// G047
TEST(CheckpointTypes, MasksAndLengthsAreNeitherCastNorDifferentiated) {
  torch::manual_seed(1);
  torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(kWidth, 4));
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(kWidth, kWidth));
  attention->to(test_device());
  lstm->to(test_device());
  const at::Tensor mask =
      torch::ones({5, 5}, at::TensorOptions(at::kBool).device(test_device())).triu(1);
  const at::Tensor lengths = torch::tensor({5, 4, 2}, at::kLong);
  const auto block = [&](const at::Tensor& x, const at::Tensor& hidden, const at::Tensor& count) {
    TORCH_CHECK(hidden.scalar_type() == at::kBool && !hidden.requires_grad());
    TORCH_CHECK(count.scalar_type() == at::kLong && count.device().is_cpu());
    const at::Tensor y =
        std::get<0>(attention->forward(x, x, x, {}, /*need_weights=*/false, hidden));
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(y, count);
    const auto out = std::get<0>(lstm->forward_with_packed_input(packed));
    return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(out));
  };
  const auto run = [&](auto call) {
    attention->zero_grad();
    lstm->zero_grad();
    torch::manual_seed(8);
    const at::Tensor x = torch::randn({5, 3, kWidth}).to(test_device()).requires_grad_();
    call(x, mask, lengths).square().sum().backward();
    auto gradients = gradients_of(*attention);
    for (const auto& gradient : gradients_of(*lstm)) gradients.push_back(gradient);
    gradients.push_back(x.grad());
    return gradients;
  };
  const auto got = run([&](auto... arguments) { return checkpoint(block, arguments...); });
  EXPECT_EQ(difference(got, run(block)), "");
}

TEST(CheckpointTypes, ModulesByHolderAndByPointerAreCallable) {
  torch::nn::Linear layer(kWidth, kWidth);
  layer->to(test_device());
  const auto plain = gradients_after(*layer, [&] { return layer(random_input()).tanh(); });
  const auto holder =
      gradients_after(*layer, [&] { return checkpoint(layer, random_input()).tanh(); });
  const auto pointer =
      gradients_after(*layer, [&] { return checkpoint(layer.ptr(), random_input()).tanh(); });
  EXPECT_EQ(difference(holder, plain), "");
  EXPECT_EQ(difference(pointer, plain), "");
}

using CheckpointedBlock = torch::nn::ModuleHolder<Checkpointed<DropBlockImpl>>;

TEST(CheckpointTypes, ACheckpointedModuleTypeKeepsNamesAndGradients) {
  torch::manual_seed(3);
  torch::nn::Sequential plain{DropBlock(kWidth), DropBlock(kWidth)};
  torch::manual_seed(3);
  torch::nn::Sequential regions{CheckpointedBlock(kWidth), CheckpointedBlock(kWidth)};
  plain->to(test_device());
  regions->to(test_device());
  EXPECT_EQ(plain->named_parameters().keys(), regions->named_parameters().keys());
  const auto expected = gradients_after(*plain, [&] { return plain->forward(random_input()); });
  const auto got = gradients_after(*regions, [&] { return regions->forward(random_input()); });
  EXPECT_EQ(difference(got, expected), "");
}

TEST(CheckpointTypes, TheGraphKeepsACheckpointedModuleAlive) {
  at::Tensor y, weight;
  {
    CheckpointedBlock block;
    block->to(test_device());
    weight = block->up->weight;
    y = block->forward(random_input());
  }
  y.sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(CheckpointTypes, ASequenceIsCutIntoSegments) {
  torch::manual_seed(3);
  torch::nn::Sequential modules;
  for (int i = 0; i < 5; ++i) modules->push_back(DropBlock());
  modules->to(test_device());
  const at::Tensor x = random_input();
  const auto expected = gradients_after(*modules, [&] { return modules->forward(x); });
  for (int64_t segments = 1; segments <= 5; ++segments) {
    const auto got =
        gradients_after(*modules, [&] { return checkpoint_sequential(modules, segments, x); });
    EXPECT_EQ(difference(got, expected), "") << segments;
  }
  for (const int64_t segments : {0, 6}) {
    EXPECT_THAT(error_of([&] { checkpoint_sequential(modules, segments, x); }),
                ::testing::HasSubstr("Ask for 1 to 5"));
  }
}

}  // namespace
}  // namespace zero::testing
