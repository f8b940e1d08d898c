// SPDX-License-Identifier: Apache-2.0
#include "plugin/state/export_weights.h"

#include <memory>

#include "plugin/state/model_tensors.h"
#include "plugin/state/safetensors_writer.h"
#include "zero/weights.h"

namespace zero {

void export_weights(const torch::nn::Module& model, const std::filesystem::path& file,
                    std::optional<at::ScalarType> dtype, bool write) {
  const at::NoGradGuard no_grad;
  const auto tensors = model_tensors(model);
  std::vector<SafetensorsWriter::Announcement> announcements;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (const auto& [names, tensor] : tensors) {
    const bool convert = dtype && c10::isFloatingType(tensor.scalar_type());
    announcements.push_back(
        {names.front(), convert ? *dtype : tensor.scalar_type(), tensor.sizes().vec()});
    for (size_t i = 1; i < names.size(); ++i) metadata["tied " + names[i]] = names.front();
  }
  std::unique_ptr<SafetensorsWriter> writer;
  if (write) writer = std::make_unique<SafetensorsWriter>(file, announcements, metadata);
  for (size_t i = 0; i < tensors.size(); ++i) {
    // Reading a paged parameter is collective: every rank comes this way.
    const at::Tensor values =
        tensors[i].tensor.detach().to(at::kCPU, announcements[i].dtype).contiguous();
    if (writer) writer->write(values);
  }
  if (writer) writer->finish();
}

void export_weights(const torch::nn::Module& model, const std::filesystem::path& file,
                    std::optional<at::ScalarType> dtype) {
  export_weights(model, file, dtype, /*write=*/true);
}

}  // namespace zero
