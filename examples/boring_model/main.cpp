// SPDX-License-Identifier: Apache-2.0
// Does cpu_checkpointing reach the engine? Device memory at every layer boundary, without and with
// it, as a table and one picture.
//
//   boring_model --precision fp16 --output boring_model.svg
#include <zero/chart.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "examples/boring_model/series.h"

namespace {

int run(const boring::Workload& workload, const std::string& which,
        const std::filesystem::path& output) {
  std::vector<boring::Series> all;
  for (const bool on : {false, true}) {
    if (which == (on ? "off" : "on")) continue;
    all.push_back(boring::run_series(workload, on));
    std::cout << all.back().memory.table() << all.back().activations.table() << '\n';
  }
  std::cout << boring::table(workload, all);
  zero::write_text_file(output, boring::picture(workload, all));
  std::cout << "picture: " << output.string() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  boring::Workload workload;
  std::string which = "both";
  std::filesystem::path output = "boring_model.svg";
  CLI::App app("Device memory at layer boundaries, without and with cpu_checkpointing");
  app.add_option("--width", workload.sizes.width, "of the hidden layers")->capture_default_str();
  app.add_option("--layers", workload.sizes.layers, "hidden layers")->capture_default_str();
  app.add_option("--batch", workload.batch, "samples")->capture_default_str();
  app.add_option("--rows", workload.rows, "rows of a sample")->capture_default_str();
  app.add_option("--steps", workload.steps, "the last one is shown")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--precision", workload.precision)->capture_default_str();
  app.add_option("--device", workload.device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--series", which, "off, on or both")
      ->check(CLI::IsMember({"off", "on", "both"}))
      ->capture_default_str();
  app.add_option("--output", output, "the picture")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(workload, which, output);
  } catch (const c10::Error& error) {
    std::cerr << "boring_model: " << error.what_without_backtrace() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "boring_model: " << error.what() << std::endl;
  }
  return 1;
}
