// SPDX-License-Identifier: Apache-2.0
// Runs the program `zero` and a folder of its own for a test's files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace zero::testing {

inline std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() { std::filesystem::create_directories(folder_); }
  ~CommandLine() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto file = folder_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  // Words are quoted for the shell.
  Ended zero(const std::vector<std::string>& words) const {
    std::string command = ZERO_COMMAND;
    for (const std::string& word : words) command.append(" '").append(word).append("'");
    const std::string out = (folder_ / "stdout").string(), err = (folder_ / "stderr").string();
    command.append(" >'").append(out).append("' 2>'").append(err).append("'");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(out), contents(err)};
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("zero_command_line_" + std::to_string(getpid()));
};

}  // namespace zero::testing
