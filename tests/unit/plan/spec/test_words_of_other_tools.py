"""Keys and values of other tools are refused with what a scenario says instead, which is accepted."""

from __future__ import annotations

import pytest

from simcluster.document import Document, validate_data
from simcluster.errors import ScenarioError
from simcluster.plan import ParallelSpec, TrainingSpec

CORES = '["layers.*.attention.core*"]'
TRAINING = {"global_batch": 8, "micro_batch": 1, "seq_len": 128}
PARALLEL = {"mesh": {"data": 8}}


@pytest.mark.parametrize(
    ("section", "key", "value", "hint", "instead"),
    [
        (TrainingSpec, "batch_size", 4, "write global_batch, of all devices, or micro_batch", ""),
        (TrainingSpec, "gradient_accumulation_steps", 4, "leave it out: the number of micro-batches", ""),
        (TrainingSpec, "lr", 1e-4, "write optimizer", "optimizer: {kind: adamw, learning_rate: 1e-4}"),
        (ParallelSpec, "sequence_parallel", True, "write recipe", "recipe: megatron_sp"),
        (ParallelSpec, "zero", 1, "write optimizer_sharding", "optimizer_sharding: {zero: 1}"),
        (ParallelSpec, "optimizer_sharding", "zero3", "write {zero: 3}", "optimizer_sharding: {zero: 3}"),
        (ParallelSpec, "optimizer_sharding", 2, "write {zero: 2}", "optimizer_sharding: {zero: 2}"),
        (ParallelSpec, "vpp", 2, "write schedule", "schedule: {kind: interleaved, chunks: 2}"),
        (ParallelSpec, "schedule", "vpp", "write {kind", "schedule: {kind: interleaved, chunks: 2}"),
        (ParallelSpec, "tp", 8, "write the sizes in the mesh", "mesh: {pipeline: 4, data: 8, tensor: 8}"),
        (ParallelSpec, "recompute", "full", "write 'all'", "recompute: all"),
        (
            ParallelSpec, "recompute", "selective", "Megatron's selective is",
            f"recompute: {{operators: {CORES}, keep_outputs: {CORES}}}",
        ),
    ],
)  # fmt: skip
def test_what_to_write_instead(section, key, value, hint, instead):
    usual = TRAINING if section is TrainingSpec else PARALLEL
    with pytest.raises(ScenarioError) as refused:
        validate_data({**usual, key: value}, section)
    (problem,) = refused.value.problems
    text = f"{problem.message} {problem.hint}"
    assert hint in text
    if instead:
        # What the hint shows is in it to the letter, but for the key where only its value is wrong.
        assert instead in text or instead.partition(": ")[2].strip() in text.replace("'", "")
        validate_data({**usual, **Document.parse(instead, "hint").data}, section)
