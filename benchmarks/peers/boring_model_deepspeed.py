#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of examples/boring_model under DeepSpeed ZeRO-3 with both offloads: GPU memory after each layer and the
step time, without and with CPU checkpointing.

    boring_model_deepspeed.py off|on [--steps 5]     ("on" also makes the call that lets the flag arrive)
"""
import argparse
import os
import statistics
import time

for key, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29731", "RANK": "0", "WORLD_SIZE": "1",
                   "LOCAL_RANK": "0"}.items():
    os.environ.setdefault(key, value)

import deepspeed  # noqa: E402  reads the environment
import torch  # noqa: E402


class BoringModel(torch.nn.Module):
    def __init__(self, width, layers, memory):
        super().__init__()
        self.linear_in = torch.nn.Linear(4, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.linear_out = torch.nn.Linear(width, 2)
        self.memory = memory

    def note(self, name):
        self.memory[name] = torch.cuda.memory_allocated()

    def forward(self, x):
        x = self.linear_in(x)
        self.note("linear_in")
        for i, layer in enumerate(self.layers):
            x = deepspeed.checkpointing.checkpoint(layer, x)
            self.note(f"linear_{i}")
        x = self.linear_out(x)
        self.note("linear_out")
        return x.sum()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cpu_checkpointing", choices=("off", "on"))
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--width", type=int, default=2000)
    p.add_argument("--layers", type=int, default=10)
    a = p.parse_args()
    on = a.cpu_checkpointing == "on"
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "fp16": {"enabled": True, "loss_scale": 1.0},
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True},
                              "offload_optimizer": {"device": "cpu", "pin_memory": True}},
        "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": on},
    }
    memory = {}
    deepspeed.init_distributed("nccl")
    torch.cuda.set_device(0)
    model = BoringModel(a.width, a.layers, memory)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    if on:
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
    seconds = []
    for _ in range(a.steps):
        x = torch.randn(256, 256, 4, device="cuda", dtype=torch.float16)
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine.backward(engine(x))
        engine.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    print("RESULT deepspeed cpu_checkpointing", a.cpu_checkpointing,
          " ".join(f"{name} {size / 1e9:.3f}" for name, size in memory.items()),
          f"GB, step {statistics.median(seconds[1:]):.3f} s", flush=True)


if __name__ == "__main__":
    main()
