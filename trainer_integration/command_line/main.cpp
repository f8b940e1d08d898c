// SPDX-License-Identifier: Apache-2.0
// zero: the command line beside the library.
//
//   zero config check FILE [--world-size N] [--set path=value]...
//   zero config explain FILE [--world-size N] [--set path=value]...
//   zero config convert FILE --to yaml|json
//   zero config docs | schema
//
// Exits with 0, with 1 when the configuration is wrong, or with 2 for a wrong command line.
#include <CLI/CLI.hpp>
#include <iostream>

#include "trainer_integration/command_line/config_commands.h"

namespace {

constexpr int kUsageError = 2;

void add_request(CLI::App& command, zero::ConfigRequest& request) {
  command.add_option("FILE", request.file, "a YAML or JSON configuration")->required();
  command.add_option("--world-size", request.world_size, "ranks of the run, for batch sizes")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--set", request.overrides,
                  "path=value, such as zero_optimization.stage=2; may be repeated")
      ->take_all()
      ->expected(1);
  command.footer(zero::settings_help());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("LibZeRO's command line");
  app.require_subcommand(1);
  CLI::App& config = *app.add_subcommand("config", "configuration files");
  config.require_subcommand(1);

  zero::ConfigRequest request;
  std::filesystem::path file;
  std::string form;
  int code = 0;

  CLI::App& check = *config.add_subcommand("check", "report everything that is wrong in a file");
  add_request(check, request);
  check.callback([&] { code = zero::check_config(request, std::cout, std::cerr); });

  CLI::App& explain =
      *config.add_subcommand("explain", "show every value, where it comes from and what it does");
  add_request(explain, request);
  explain.callback([&] { code = zero::explain_config(request, std::cout, std::cerr); });

  CLI::App& convert =
      *config.add_subcommand("convert", "write a file in the other language to standard output");
  convert.add_option("FILE", file, "a YAML or JSON configuration")->required();
  convert.add_option("--to", form, "yaml or json")
      ->required()
      ->check(CLI::IsMember({"yaml", "json"}));
  convert.callback([&] {
    const auto to = form == "yaml" ? zero::TextForm::kYaml : zero::TextForm::kJson;
    code = zero::convert_config(file, to, std::cout, std::cerr);
  });

  config.add_subcommand("docs", "write the page of all settings (docs/configuration.md)")
      ->callback([] { std::cout << zero::configuration_page(); });
  config.add_subcommand("schema", "write the JSON Schema for editors (configs/schema.json)")
      ->callback([] { std::cout << zero::configuration_schema(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int result = app.exit(error);
    return result == 0 ? 0 : kUsageError;
  } catch (const std::exception& error) {
    std::cerr << "zero: " << error.what() << '\n';
    return 1;
  }
  return code;
}
