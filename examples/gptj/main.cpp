// SPDX-License-Identifier: Apache-2.0
// Continues a prompt with GPT-J under ZeRO stage 3: weights from sharded safetensors files, held
// whole on the GPU, split over ranks, or in host memory.
//
//   scripts/make_gptj_checkpoint gptj            # or a checkpoint of your own
//   gptj --weights gptj --config configs/zero_stage_3_offload.yaml --prompt 464 3290 318
//
// Prints memory after each stage: construct, load, generate.
#include <torch/torch.h>
#include <zero/progress.h>
#include <zero/strategy.h>
#include <zero/weights.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "examples/gptj/generate.h"
#include "examples/gptj/model.h"

namespace {

struct Arguments {
  std::filesystem::path weights, config;
  std::vector<int64_t> prompt{464, 3290, 318};
  int64_t tokens = 16;
  gptj::GPTJOptions sizes;
};

class Stages {
 public:
  explicit Stages(const zero::Strategy& strategy) : strategy_(strategy) {}
  void done(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    if (strategy_.rank() != 0) return;
    const zero::MemoryReport memory = strategy_.memory_report();
    const auto text = [](int64_t bytes) { return zero::format_bytes(static_cast<double>(bytes)); };
    std::printf("%-10s %7.2f s   host %s, peak %s   device %s, peak %s\n", name.c_str(), seconds,
                text(memory.process_rss).c_str(), text(memory.process_peak_rss).c_str(),
                text(memory.device_allocated).c_str(), text(memory.device_peak_allocated).c_str());
  }

 private:
  const zero::Strategy& strategy_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run(const Arguments& arguments) {
  zero::Strategy strategy = zero::Strategy::from_yaml(arguments.config);
  Stages stages(strategy);
  gptj::GPTJ model(arguments.sizes);
  model->eval();
  strategy.setup(*model);
  stages.done("construct");
  zero::LoadOptions options;
  options.ignore = {R"(transformer\.h\.\d+\.attn\.(bias|masked_bias))"};  // of old checkpoints
  zero::load_weights(*model, arguments.weights, options);
  stages.done("load");
  gptj::GenerateOptions wanted;
  wanted.on_any_rank = [&](bool here) { return strategy.any(here); };
  wanted.tokens = 1;
  gptj::generate(model, arguments.prompt, strategy.device(), wanted);
  stages.done("first");
  wanted.tokens = arguments.tokens;
  const auto tokens = gptj::generate(model, arguments.prompt, strategy.device(), wanted);
  stages.done("generate");
  if (strategy.rank() == 0) {
    for (const int64_t token : tokens) std::cout << token << ' ';
    std::cout << '\n' << strategy.memory_report().table() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  int64_t width = 4096, layers = 28, heads = 16, vocabulary = 50400, rotary = 64;
  CLI::App app("Continues a prompt with GPT-J under ZeRO stage 3");
  app.add_option("--weights", arguments.weights, "safetensors file, index or folder")->required();
  app.add_option("--config", arguments.config, "YAML file with the strategy's flags")->required();
  app.add_option("--prompt", arguments.prompt, "token ids");
  app.add_option("--tokens", arguments.tokens, "new tokens at most")->capture_default_str();
  app.add_option("--width", width)->capture_default_str();
  app.add_option("--layers", layers)->capture_default_str();
  app.add_option("--heads", heads)->capture_default_str();
  app.add_option("--vocabulary", vocabulary)->capture_default_str();
  app.add_option("--rotary", rotary)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  arguments.sizes.width(width).layers(layers).heads(heads).vocabulary(vocabulary).rotary(rotary);
  try {
    return run(arguments);
  } catch (const c10::Error& error) {
    std::cerr << "gptj: " << error.what_without_backtrace() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "gptj: " << error.what() << std::endl;
  }
  return 1;
}
