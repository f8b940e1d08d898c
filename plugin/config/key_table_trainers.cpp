// SPDX-License-Identifier: Apache-2.0
// Keys that the files of trainers around DeepSpeed hold: what starts processes, and flags that
// Lightning's strategy and Accelerate's plugin have beside the sections.
#include "plugin/config/key.h"

namespace zero {

std::span<const Key> trainer_keys() {
  using K = KeyKind;
  using V = ValueType;
  constexpr std::string_view kLauncher =
      "how processes are started is the launcher's: torchrun, Slurm or mpirun";
  constexpr std::string_view kConstruction = "how the model is made is the program's";
  static const Key kTable[] = {
      {.path = "strategy", .kind = K::kSection},
      {.path = "trainer", .kind = K::kSection},
      {.path = "deepspeed_config", .kind = K::kSection},
      {.path = "compute_environment", .kind = K::kNoted, .says = kLauncher},
      {.path = "distributed_type",
       .kind = K::kFixed,
       .type = V::kText,
       .says = "this is a ZeRO engine",
       .one_of = {"DEEPSPEED", "NO", "MULTI_GPU", "MULTI_CPU"}},
      {.path = "num_processes", .kind = K::kNoted, .says = kLauncher},
      {.path = "num_machines", .kind = K::kNoted, .says = kLauncher},
      {.path = "machine_rank", .kind = K::kNoted, .says = kLauncher},
      {.path = "main_process_ip", .kind = K::kNoted, .says = kLauncher},
      {.path = "main_process_port", .kind = K::kNoted, .says = kLauncher},
      {.path = "main_training_function", .kind = K::kNoted, .says = kLauncher},
      {.path = "rdzv_backend", .kind = K::kNoted, .says = kLauncher},
      {.path = "same_network", .kind = K::kNoted, .says = kLauncher},
      {.path = "gpu_ids", .kind = K::kNoted, .says = kLauncher},
      {.path = "enable_cpu_affinity", .kind = K::kNoted, .type = V::kSwitch, .says = kLauncher},
      {.path = "deepspeed_multinode_launcher",
       .kind = K::kNoted,
       .type = V::kText,
       .says = kLauncher},
      {.path = "debug", .kind = K::kNoted, .type = V::kSwitch, .says = "ranks are always compared"},
      {.path = "downcast_bf16", .kind = K::kOutside, .says = "it is for TPUs"},
      {.path = "tpu_env", .kind = K::kNoted, .says = "it is for TPUs"},
      {.path = "tpu_use_cluster",
       .kind = K::kOutside,
       .type = V::kSwitch,
       .says = "it is for TPUs"},
      {.path = "tpu_use_sudo", .kind = K::kNoted, .type = V::kSwitch, .says = "it is for TPUs"},
      {.path = "use_cpu",
       .kind = K::kSets,
       .type = V::kSwitch,
       .setting = "device",
       .words = {{"true", "cpu"}, {"false", "cpu", true}}},
      {.path = "zero3_init_flag",
       .kind = K::kNoted,
       .type = V::kSwitch,
       .says = kConstruction,
       .acts_at_stage = 3},
      {.path = "deepspeed_config_file",
       .kind = K::kOutside,
       .type = V::kText,
       .says = "give that file itself to LibZeRO"},
      {.path = "load_full_weights",
       .kind = K::kNoted,
       .type = V::kSwitch,
       .says = "the program says what it loads"},
      {.path = "exclude_frozen_parameters",
       .kind = K::kNoted,
       .type = V::kSwitch,
       .says = "the program says what it saves"},
      {.path = "remote_device",
       .kind = K::kFixed,
       .type = V::kText,
       .says = "offload_parameters says where the parameters live",
       .one_of = {"cpu"}},
  };
  return kTable;
}

}  // namespace zero
