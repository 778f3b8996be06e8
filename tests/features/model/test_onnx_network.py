"""Networks from ONNX files train as on one device."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.errors import PlanError
from simcluster.layout import Movement
from simcluster.model.graph.graph import Phase
from simcluster.scenario import Scenario
from simcluster.simulation import simulate, verify
from simcluster.simulation.compose.build import build_scenario
from tests.support.onnx_networks import INT, File, mixture, mlp, pictures, renamed, transformer

NETWORKS = {
    "mlp": (mlp, 1),
    "transformer": (transformer, 8),
    "mixture": (mixture, 1),
    "pictures": (pictures, 1),
}


def scenario(path, mesh, strategies=(), **training):
    ranks = int(np.prod(list(mesh.values())))
    data = {
        "simcluster": 1,
        "name": "imported",
        "cluster": {"host": {"use": "cpu-server", "devices": ranks, "network": {"nics": ranks}}, "hosts": 1},
        "model": {"onnx": str(path)},
        "training": {"global_batch": 16, "micro_batch": 2, "seq_len": 1, **training},
        "parallel": {"mesh": mesh, "recipe": "data", "strategies": list(strategies)},
    }
    return Scenario.of(data)


NAMES = {
    "numbers": str,
    "numbers as Python reads them": lambda place: (
        ["nan", "inf", "1e3", "-1", "00", "1_0", "+2", ".5", "1"][place] if place < 9 else f"0{place}"
    ),
    "what graphs have of their own": lambda place: f"{'x:' if place % 2 else 'layers.'}{place}",
    "what is no word": lambda place: f"{place} /*{{\n'#" + '"é',
}


@pytest.mark.combinations
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("kind", ["mlp", "transformer"])
def test_what_values_are_called_changes_nothing(tmp_path, kind, names):
    write, seq_len = NETWORKS[kind]
    known = scenario(write(tmp_path / "known.onnx"), {"data": 2}, seq_len=seq_len)
    odd = scenario(renamed(write(tmp_path / "odd.onnx"), NAMES[names]), {"data": 2}, seq_len=seq_len)
    assert step_time(odd) == step_time(known)
    assert verify(odd).agrees


def step_time(scenario):
    return simulate(scenario).documents["summary"]["step_time_s"]


def test_the_samples_keep_their_name_through_every_operator(tmp_path):
    """Otherwise data parallelism would gather them."""
    for name, (write, seq) in NETWORKS.items():
        plan = build_scenario(scenario(write(tmp_path / f"{name}.onnx"), {"data": 4}, seq_len=seq)).plan
        nodes = plan.graph.blocks["network"].phase(Phase.FORWARD, Phase.BACKWARD)
        assert [node.name for node in nodes if isinstance(node.operator, Movement)] == [], name


FIRST = {"match": "layers.0.fc0.Gemm{,.bias}", "split": {"out": "tensor"}}


COLUMNS = {"match": "layers.0.h.0.{up,scores,qkv}.*", "split": {"out": "tensor"}}


HEADS = {"match": "layers.0.h.0.{Softmax,scores.*,context.MatMul}", "split": {"dim1": "tensor"}}


KEYS = {"match": "layers.0.h.0.Softmax", "split": {"dim3": "tensor"}}


EXTREMES = {"match": "layers.0.{low,high}", "split": {"dim2": "tensor"}}


SUMS = {"match": "layers.0.{mean,gate}", "split": {"dim1": "tensor"}}


HEIGHT = {"match": "layers.0.{conv0,pool0}", "split": {"height": "tensor"}}


VOCAB = {"match": "layers.0.tokens.Gather", "split": {"rows": "tensor"}}


@pytest.mark.parametrize(
    ("network", "mesh", "strategies"),
    [
        ("mlp", {"data": 8}, []),
        ("mlp", {"data": 2, "tensor": 4}, [FIRST]),
        ("transformer", {"data": 4}, []),
        ("transformer", {"data": 2, "tensor": 2}, [HEADS, VOCAB]),
        ("transformer", {"data": 2, "tensor": 4}, [COLUMNS, KEYS]),
        ("mixture", {"data": 4}, []),
        ("pictures", {"data": 4}, []),
        ("pictures", {"data": 2, "tensor": 4}, [HEIGHT]),
        ("mixture", {"data": 2, "tensor": 4}, [EXTREMES, SUMS]),
    ],
)
def test_it_computes_what_one_device_computes(tmp_path, network, mesh, strategies):
    write, seq = NETWORKS[network]
    path = write(tmp_path / "network.onnx")
    result = verify(scenario(path, mesh, strategies, seq_len=seq))
    assert result.agrees, result.fault or result.first_difference


def test_unequal_shares_of_the_batch_compute_the_same(tmp_path):
    path = transformer(tmp_path / "lm.onnx")
    shares = {"batch_shares": {"data": [3, 1]}, "global_batch": 16}
    result = verify(scenario(path, {"data": 2}, seq_len=8, **shares))
    assert result.agrees, result.fault or result.first_difference


def test_it_is_simulated(tmp_path):
    result = simulate(scenario(transformer(tmp_path / "lm.onnx"), {"data": 4}, seq_len=8, micro_batch=4))
    summary = result.documents["summary"]
    assert summary["samples_per_s"] * summary["step_time_s"] == pytest.approx(16)


def test_another_length_than_the_loss_has_is_refused(tmp_path):
    which = scenario(transformer(tmp_path / "lm.onnx"), {"data": 2})
    with pytest.raises(PlanError, match=r"adds up 8 terms for a sample .*: write seq_len: 8, not 1"):
        build_scenario(which)


def test_a_loss_of_the_file_computes_what_one_device_computes(tmp_path):
    file = File()
    x, targets = file.input("x", "batch", 4), file.input("y", "batch", kind=INT)
    loss = file.add("SoftmaxCrossEntropyLoss", file.add("MatMul", x, file.weight("w", 4, 8)), targets)
    assert verify(scenario(file.save(tmp_path / "loss.onnx", loss), {"data": 2})).agrees
