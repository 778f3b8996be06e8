"""This machine measured with PyTorch, and training steps of PyTorch on it against the prediction.

Nothing is fitted to the steps. Skipped where PyTorch is not installed: the extra ``calibrate`` has it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import pytest

import simcluster

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra calibrate has it")
pytestmark = pytest.mark.thorough  # two minutes

SIZES = [(4, 256, 4, 8192, 256, 4), (2, 512, 8, 8192, 256, 2), (8, 128, 4, 2048, 128, 8)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder with the files of this machine's device and host."""
    folder = tmp_path_factory.mktemp("measured")
    asked = ["--device", "cpu", "--out", "device.yaml", "--host", "host.yaml", "--rows", "rows.csv"]
    command = [sys.executable, "-m", "simcluster", "calibrate", "measure", *asked]
    print(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)
    return folder


def gpt_step(layers, hidden, heads, vocab, length, batch):
    """Seconds of a training step of a GPT: the median of six after two."""
    nn = torch.nn
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # a device is half of the cores

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            parts = self.qkv(self.norms[0](x)).split(hidden, -1)
            q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2) for part in parts)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    tokens, places = nn.Embedding(vocab, hidden), nn.Embedding(length, hidden)
    layers = nn.ModuleList([*(Block() for _ in range(layers)), nn.LayerNorm(hidden)])
    weights = [*tokens.parameters(), *places.parameters(), *layers.parameters()]
    optimizer = torch.optim.AdamW(weights, foreach=True)
    batch_of_tokens = torch.randint(0, vocab, (batch, length))
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    spent = []
    for _ in range(8):
        began = clock()
        optimizer.zero_grad()
        x = tokens(batch_of_tokens) + places(torch.arange(length))
        for layer in layers:
            x = layer(x)
        logits = (x @ tokens.weight.t()).view(-1, vocab)
        nn.functional.cross_entropy(logits, batch_of_tokens.view(-1)).backward()
        optimizer.step()
        spent.append(clock() - began)
    return statistics.median(spent[2:])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_training_step_of_pytorch_is_predicted(files, sizes):
    layers, hidden, heads, vocab, length, batch = sizes
    scenario = {
        "simcluster": 1,
        "name": "a GPT on this processor",
        "cluster": {"host": {"use": str(files / "host.yaml"), "devices": 1}, "hosts": 1},
        "framework": "ddp",
        "model": {"family": "gpt", "layers": layers, "hidden": hidden, "heads": heads, "vocab": vocab,
                  "max_positions": length, "dropout": 0},
        "parallel": {"mesh": {"data": 1}},
        "training": {"global_batch": batch, "micro_batch": batch, "seq_len": length, "precision": "fp32",
                     "optimizer": "adamw"},
    }  # fmt: skip
    (files / "gpt.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    predicted = simcluster.simulate(str(files / "gpt.yaml")).step_time_s
    measured = gpt_step(*sizes)
    print(f"{sizes}: measured {measured:.3f} s, predicted {predicted:.3f} s, {predicted / measured - 1:+.0%}")
    assert predicted == pytest.approx(measured, rel=0.4)
