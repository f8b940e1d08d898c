// SPDX-License-Identifier: Apache-2.0
#include "examples/boring_model/series.h"

#include <torch/torch.h>
#include <zero/chart.h>
#include <zero/progress.h>
#include <zero/strategy.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "examples/boring_model/memory_meter.h"

namespace boring {

namespace {

constexpr double kGigabyte = 1e9;
constexpr double kLossScale = 0.125;

zero::StrategyOptions options(const Workload& workload, bool cpu_checkpointing) {
  zero::StrategyOptions flags;
  flags.device(workload.device)
      .stage(3)
      .offload_parameters(true)
      .offload_optimizer(true)
      .precision(workload.precision)
      .cpu_checkpointing(cpu_checkpointing)
      .partition_activations(true);
  // Gradients of a sum over all rows outgrow fp16: a bias has one of 65536.
  if (workload.precision == "fp16") flags.loss_scale(kLossScale);
  return flags;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

}  // namespace

Series run_series(const Workload& workload, bool cpu_checkpointing) {
  torch::manual_seed(1);
  BoringModel model(workload.sizes);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.001));
  zero::Strategy strategy(options(workload, cpu_checkpointing));
  MemoryMeter meter(strategy);
  strategy.setup(model, optimizer);

  const at::ScalarType dtype = model->parameters().front().scalar_type();
  const at::Tensor input = torch::randn({workload.batch, workload.rows, workload.sizes.features})
                               .to(strategy.device(), dtype);
  Series series;
  series.cpu_checkpointing = cpu_checkpointing;
  std::vector<double> seconds;
  for (int64_t step = 0; step < workload.steps; ++step) {
    const int64_t moved_before = strategy.activation_report().bytes_moved;
    const auto begun = std::chrono::steady_clock::now();
    series.boundary_bytes.clear();
    at::Tensor loss =
        model->forward(input, [&](int64_t) { series.boundary_bytes.push_back(meter.bytes()); })
            .sum();
    strategy.backward(loss);
    strategy.step();
    meter.wait_for_device();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (step >= 2) seconds.push_back(took.count());
    series.moved_bytes = strategy.activation_report().bytes_moved - moved_before;
  }
  series.step_seconds = median(std::move(seconds));
  series.memory = strategy.memory_report();
  series.activations = strategy.activation_report();
  return series;
}

std::vector<std::string> boundary_names(const ModelSizes& sizes) {
  std::vector<std::string> names{"linear_in"};
  for (int64_t i = 0; i < sizes.layers; ++i) names.push_back("linear_" + std::to_string(i));
  names.emplace_back("linear_out");
  return names;
}

namespace {

std::string name_of(const Series& series) {
  return std::string("cpu_checkpointing ") + (series.cpu_checkpointing ? "on" : "off");
}

std::string line(const char* format, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string table(const Workload& workload, const std::vector<Series>& all) {
  std::string text = line("%-12s", "GB after");
  for (const Series& series : all) text += line(" %22s", name_of(series).c_str());
  text += '\n';
  const auto names = boundary_names(workload.sizes);
  for (size_t i = 0; i < names.size(); ++i) {
    text += line("%-12s", names[i].c_str());
    for (const Series& series : all) {
      text += line(" %22.4f", static_cast<double>(series.boundary_bytes.at(i)) / kGigabyte);
    }
    text += '\n';
  }
  for (const Series& series : all) {
    text += line("%s: %.4f s a step, %.3f GB to the host and back\n", name_of(series).c_str(),
                 series.step_seconds, static_cast<double>(series.moved_bytes) / kGigabyte);
  }
  return text;
}

std::string picture(const Workload& workload, const std::vector<Series>& all) {
  zero::CurvePanel panel;
  panel.title = "Device memory at layer boundaries";
  panel.x_label = "0: linear_in, then each hidden layer, last: linear_out";
  panel.y_label = "GB allocated";
  for (const Series& series : all) {
    zero::Curve curve{name_of(series) + line(", %.3f s/step", series.step_seconds), {}, true};
    for (size_t i = 0; i < series.boundary_bytes.size(); ++i) {
      curve.points.emplace_back(static_cast<double>(i),
                                static_cast<double>(series.boundary_bytes[i]) / kGigabyte);
    }
    panel.curves.push_back(std::move(curve));
  }
  const std::string title = line("%ld checkpointed Linear %ld -> %ld, batch %ld x %ld, %s",
                                 workload.sizes.layers, workload.sizes.width, workload.sizes.width,
                                 workload.batch, workload.rows, workload.precision.c_str());
  return zero::chart_svg(title, panel, zero::memory_bars(all.back().memory));
}

}  // namespace boring
