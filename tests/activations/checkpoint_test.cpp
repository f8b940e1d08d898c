// SPDX-License-Identifier: Apache-2.0
// zero::checkpoint gives the gradients of plain LibTorch, bit for bit, in less memory.
#include "zero/checkpoint.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

#include <array>
#include <latch>
#include <thread>

#include "activations/networks.h"

namespace zero::testing {
namespace {

at::Tensor plain(Stack& model, at::Tensor x) {
  for (auto& block : model->blocks) x = block(x);
  return x;
}
at::Tensor checkpointed(Stack& model, at::Tensor x) {
  for (auto& block : model->blocks) x = checkpoint(block, x);
  return x;
}

// A region's saved tensors are gone after forward: each intermediate tells when it dies.
class Watch {
 public:
  void see(const at::Tensor& tensor) { seen_.emplace_back(tensor.storage().getWeakStorageImpl()); }
  int alive() const {
    return static_cast<int>(
        std::ranges::count_if(seen_, [](const auto& storage) { return !storage.expired(); }));
  }
  size_t seen() const { return seen_.size(); }

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> seen_;
};

TEST(Checkpoint, GradientsWithDropoutHaveTheBitsOfPlainOnes) {
  Stack model(3);
  const at::Tensor x = random_input();
  const auto expected = gradients_after(*model, [&] { return plain(model, x); });
  const auto got = gradients_after(*model, [&] { return checkpointed(model, x); });
  EXPECT_EQ(difference(got, expected), "");
  ASSERT_TRUE(got.front().defined()) << "the first layer's input asks for no gradient";
}

TEST(Checkpoint, GradientOfTheInputIsThePlainOne) {
  Stack model(2);
  at::Tensor x = random_input().requires_grad_();
  gradients_after(*model, [&] { return plain(model, x); });
  const at::Tensor expected = x.grad().clone();
  x.mutable_grad().reset();
  gradients_after(*model, [&] { return checkpointed(model, x); });
  EXPECT_TRUE(at::equal(x.grad(), expected));
}

TEST(Checkpoint, RandomNumbersAfterBackwardGoOnAsIfNothingRanAgain) {
  Stack model(2);
  const at::Tensor x = random_input();
  const auto next = [&](auto forward) {
    gradients_after(*model, [&] { return forward(model, x); });
    return std::pair(torch::rand({4}), torch::rand({4}, x.options()));
  };
  const auto expected = next(plain), got = next(checkpointed);
  EXPECT_TRUE(at::equal(got.first, expected.first));
  EXPECT_TRUE(at::equal(got.second, expected.second));
}

TEST(Checkpoint, NestedRegionsGiveTheSameBits) {
  Stack model(4);
  const at::Tensor x = random_input();
  const auto expected = gradients_after(*model, [&] { return plain(model, x); });
  auto pair_of = [&](int from) {
    return [&, from](at::Tensor h) {
      h = checkpoint(model->blocks[from], h);
      return checkpoint(model->blocks[from + 1], h);
    };
  };
  const auto two_levels =
      gradients_after(*model, [&] { return checkpoint(pair_of(2), checkpoint(pair_of(0), x)); });
  EXPECT_EQ(difference(two_levels, expected), "");
  const auto three_levels = gradients_after(*model, [&] {
    return checkpoint(
        [&](at::Tensor h) { return checkpoint(pair_of(2), checkpoint(pair_of(0), h)); }, x);
  });
  EXPECT_EQ(difference(three_levels, expected), "");
}

TEST(Checkpoint, NothingOfARegionLivesBetweenForwardAndBackward) {
  Stack model(1);
  Watch watch;
  const auto inner = [&](at::Tensor h) {
    h = torch::tanh(model->blocks[0](h));
    watch.see(h);
    h = torch::exp(h * 0.1);
    watch.see(h);
    return h.sum(0);
  };
  const auto outer = [&](at::Tensor h) {
    h = torch::sigmoid(h * 2);
    watch.see(h);
    return checkpoint(inner, h);
  };
  const at::Tensor y = checkpoint(outer, random_input());
  EXPECT_EQ(watch.seen(), 3U);
  EXPECT_EQ(watch.alive(), 0) << "also what an inner region got as its argument";
  y.sum().backward();
  EXPECT_EQ(watch.alive(), 0);
  EXPECT_GT(watch.seen(), 3U) << "it ran again";
}

TEST(Checkpoint, TheSecondRunStopsWhenAllIsThere) {
  int begins = 0, ends = 0;
  const at::Tensor x = random_input().requires_grad_();
  const at::Tensor y = checkpoint(
      [&](at::Tensor h) {
        ++begins;
        h = torch::tanh(h).sum();
        ++ends;
        return h;
      },
      x);
  y.backward();
  EXPECT_EQ(begins, 2);
  EXPECT_EQ(ends, 1) << "the sum is not computed again";
}

TEST(Checkpoint, UnderNoGradTheFunctionIsCalledAndNothingKept) {
  Stack model(1);
  const at::NoGradGuard no_grad;
  int runs = 0;
  const at::Tensor x = random_input();
  model->eval();
  const at::Tensor y = checkpoint(
      [&](at::Tensor h) {
        ++runs;
        return model->blocks[0](h);
      },
      x);
  EXPECT_TRUE(at::equal(y, model->blocks[0](x)));
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Checkpoint, FrozenBlocksPassGradientsThrough) {
  Stack model(3);
  for (auto& parameter : model->blocks[1]->parameters()) parameter.set_requires_grad(false);
  const at::Tensor x = random_input();
  const auto expected = gradients_after(*model, [&] { return plain(model, x); });
  const auto got = gradients_after(*model, [&] { return checkpointed(model, x); });
  EXPECT_EQ(difference(got, expected), "");
  EXPECT_FALSE(model->blocks[1]->up->weight.grad().defined());
}

TEST(Checkpoint, ARegionWithoutAnyGradientRunsOnce) {
  Stack model(2);
  for (auto& parameter : model->blocks[0]->parameters()) parameter.set_requires_grad(false);
  int runs = 0;
  at::Tensor h = checkpoint(
      [&](at::Tensor x) {
        ++runs;
        return model->blocks[0](x);
      },
      random_input());
  checkpoint(model->blocks[1], h).sum().backward();
  EXPECT_EQ(runs, 1);
}

TEST(Checkpoint, RetainedGraphsRunBackwardAsOftenAsAsked) {
  Stack model(2);
  const at::Tensor x = random_input();
  const auto twice = [&](auto forward) {
    model->zero_grad();
    torch::manual_seed(29);
    const at::Tensor y = forward(model, x);
    y.square().mean().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return gradients_of(*model);
  };
  EXPECT_EQ(difference(twice(checkpointed), twice(plain)), "");
}

TEST(Checkpoint, AGraphWithoutRetentionIsGoneAfterBackward) {
  const at::Tensor x = random_input().requires_grad_();
  const at::Tensor y = checkpoint([](at::Tensor h) { return torch::tanh(h); }, x);
  y.sum().backward();
  EXPECT_THAT(error_of([&] { y.sum().backward(); }), ::testing::HasSubstr("second time"));
}

TEST(Checkpoint, DoubleBackwardIsThePlainOne) {
  const auto second = [](auto forward) {
    const at::Tensor x = random_input().requires_grad_();
    const auto first = torch::autograd::grad({forward(x).sum()}, {x}, {}, true, true).front();
    return torch::autograd::grad({first.square().sum()}, {x}).front();
  };
  const auto function = [](at::Tensor h) { return torch::tanh(h * h).exp(); };
  const at::Tensor expected = second(function);
  const at::Tensor got = second([&](const at::Tensor& x) { return checkpoint(function, x); });
  EXPECT_TRUE(at::equal(got, expected));
}

TEST(Checkpoint, ARegionMayTakeGradientsInside) {
  const auto penalty = [](at::Tensor h) {
    const at::Tensor inner = torch::tanh(h).pow(3).sum();
    const at::Tensor slope = torch::autograd::grad({inner}, {h}, {}, true, true).front();
    return torch::sigmoid(slope) * h;
  };
  const auto gradient = [](auto forward) {
    const at::Tensor x = random_input().requires_grad_();
    forward(x * 1.5).sum().backward();
    return x.grad().clone();
  };
  const at::Tensor expected = gradient(penalty);
  const at::Tensor got = gradient([&](const at::Tensor& x) { return checkpoint(penalty, x); });
  EXPECT_TRUE(at::equal(got, expected));
}

TEST(Checkpoint, PartOfARegionMayBeAskedForAndThenTheRest) {
  const auto function = [](at::Tensor a, at::Tensor b) {
    return std::tuple(torch::tanh(a).exp(), torch::sigmoid(b).exp());
  };
  const auto both = [](auto forward) {
    const at::Tensor a = random_input().requires_grad_(), b = random_input(3).requires_grad_();
    const auto [u, v] = forward(a, b);
    const auto first = torch::autograd::grad({u.sum()}, {a}, {}, true).front();
    (u.sum() + v.sum()).backward();
    return std::vector{first, a.grad(), b.grad()};
  };
  const auto got =
      both([&](const at::Tensor& a, const at::Tensor& b) { return checkpoint(function, a, b); });
  EXPECT_EQ(difference(got, both(function)), "");
}

// G054: dtypes of the second run are those of the first.
TEST(Checkpoint, AutocastIsTheSameInBothRuns) {
  Stack model(1);
  const at::Tensor x = random_input();
  const auto type = test_device().type();
  std::vector<at::ScalarType> dtypes;
  const auto block = [&](at::Tensor h) {
    h = model->blocks[0]->up(h);
    dtypes.push_back(h.scalar_type());
    return torch::relu(model->blocks[0]->down(h)).square();
  };
  const auto under_autocast = [&](auto forward) {
    return gradients_after(*model, [&] {
      const bool before = at::autocast::is_autocast_enabled(type);
      at::autocast::set_autocast_enabled(type, true);
      at::autocast::set_autocast_dtype(type, at::kBFloat16);
      at::autocast::increment_nesting();
      const at::Tensor y = forward(x);
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(type, before);
      return y.to(at::kFloat);
    });
  };
  const auto expected = under_autocast(block);
  dtypes.clear();
  const auto got = under_autocast([&](const at::Tensor& h) { return checkpoint(block, h); });
  EXPECT_EQ(difference(got, expected), "");
  EXPECT_THAT(dtypes, ::testing::ElementsAre(at::kBFloat16, at::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(type));
}

TEST(Checkpoint, LowPrecisionParametersAndTheirInputsKeepTheirTypes) {
  Stack model(1);
  model->to(at::kBFloat16);
  std::vector<at::ScalarType> dtypes;
  const auto block = [&](at::Tensor h) {
    dtypes.push_back(h.scalar_type());
    h = model->blocks[0](h.to(at::kBFloat16));
    dtypes.push_back(h.scalar_type());
    return h.to(at::kFloat).exp();
  };
  const at::Tensor x = random_input();
  const auto expected = gradients_after(*model, [&] { return block(x); });
  dtypes.clear();
  const auto got = gradients_after(*model, [&] { return checkpoint(block, x); });
  EXPECT_EQ(difference(got, expected), "");
  EXPECT_THAT(dtypes, ::testing::ElementsAre(at::kFloat, at::kBFloat16, at::kFloat, at::kBFloat16));
}

TEST(Checkpoint, ThreadsHaveRegionsOfTheirOwn) {
  constexpr int kThreads = 4;
  Stack model(2);
  model->eval();  // dropout would draw from one generator
  const at::Tensor x = random_input();
  std::vector<at::Tensor> inputs, expected(kThreads), got(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back((x * (i + 1)).requires_grad_());
    expected[i] = torch::autograd::grad({plain(model, inputs[i]).sum()}, {inputs[i]}).front();
  }
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (int round = 0; round < 10; ++round) {
        got[i] = torch::autograd::grad({checkpointed(model, inputs[i]).sum()}, {inputs[i]}).front();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(difference(got, expected), "");
}

TEST(Checkpoint, AnExceptionInEitherRunLeavesTheRegionUsable) {
  int runs = 0, throws_at = 1;
  const auto sometimes = [&](at::Tensor h) {
    if (++runs == throws_at) throw std::runtime_error("not now");
    return torch::tanh(h).exp();
  };
  const at::Tensor x = random_input().requires_grad_();
  EXPECT_EQ(error_of([&] { checkpoint(sometimes, x); }), "not now");
  throws_at = 3;
  const at::Tensor y = checkpoint(sometimes, x);
  EXPECT_THAT(error_of([&] { y.sum().backward({}, /*retain_graph=*/true); }),
              ::testing::HasSubstr("not now"));
  y.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), (torch::tanh(x).exp() * (1 - torch::tanh(x).square()))));
}

TEST(Checkpoint, AFunctionThatCatchesEverythingChangesNothing) {
  const auto function = [](at::Tensor h) {
    at::Tensor y = h;
    for (int i = 0; i < 3; ++i) {
      try {
        y = torch::tanh(y);
      } catch (...) {
      }
    }
    return y;
  };
  const at::Tensor x = random_input().requires_grad_();
  checkpoint(function, x).sum().backward();
  const at::Tensor got = x.grad().clone();
  x.mutable_grad().reset();
  function(x).sum().backward();
  EXPECT_TRUE(at::equal(got, x.grad()));
}

}  // namespace
}  // namespace zero::testing
