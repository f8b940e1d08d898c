#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logits of a small GPT-J by the Hugging Face implementation, on weights that a formula gives.

    reference.py            prints them as expected_logits.txt holds them
    reference.py --check F  compares them with the file F; exits with 77 where transformers is not installed
"""
import sys

try:
    import torch
    from transformers import GPTJConfig, GPTJForCausalLM
except ImportError as error:
    print(f"reference.py: not checked, {error}")
    sys.exit(77)

CONFIG = GPTJConfig(vocab_size=29, n_positions=32, n_embd=24, n_layer=3, n_head=3, rotary_dim=4, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False)
TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6, 5], [28, 0, 27, 1, 26, 2, 25, 3, 24]]


def formula(name, tensor):
    waves = torch.sin(torch.arange(tensor.numel(), dtype=torch.float64) * 0.37 + len(name))
    base = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
    return (base + 0.3 * waves).reshape(tensor.shape).float()


def logits():
    model = GPTJForCausalLM(CONFIG).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(formula(name, parameter))
        return model(torch.tensor(TOKENS)).logits


def main():
    values = logits().flatten().tolist()
    if sys.argv[1:2] == ["--check"]:
        stored = [float(line) for line in open(sys.argv[2], encoding="utf-8")]
        worst = max(abs(a - b) for a, b in zip(stored, values, strict=True))
        print(f"reference.py: largest difference to the stored logits {worst:.1e}")
        sys.exit(worst > 2e-6)
    print("\n".join(f"{value:.9g}" for value in values))


if __name__ == "__main__":
    main()
