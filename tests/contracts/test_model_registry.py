"""A model family is one file: found by its entry point, with its keys, its schema and its models."""

from __future__ import annotations

import json

import pytest

from tests.support.installed import installed

FAMILY = '''
"""A chain of linear layers with a ReLU each."""

from dataclasses import dataclass, replace
from typing import ClassVar

from simcluster.document import PositiveInt
from simcluster.model.family_spec import FamilySpec, LayerKeys
from simcluster.model.graph import BlockBuilder, Graph, Instance, TensorType
from simcluster.model.layers import linear
from simcluster.model.model import Model
from simcluster.model.operators import CrossEntropy, Relu
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Perceptron(Model):
    layers: int
    breadth: int
    max_seq_len: ClassVar[int] = 1
    sequence: ClassVar[int] = 1

    @property
    def dimensions(self):
        return {"layers": self.layers, "breadth": self.breadth}

    @property
    def num_layers(self):
        return self.layers

    def shrunk(self, layers, ways, *, padded):
        return replace(self, layers=layers, breadth=8)

    def graph(self, batch, seq_len, dtype, num_tokens):
        build = BlockBuilder("layer", dtype)
        x = build.input("in", TensorType((batch, self.breadth), dtype))
        sizes = {"in": self.breadth, "out": self.breadth}
        (x,) = linear(build, "dense", x, ("batch", "in"), {"": ("in", "out")}, sizes, bias=True)
        layer = build.block(outputs={"out": build.add("relu", Relu(("batch", "out")), x)})
        build = BlockBuilder("samples", dtype)
        x = build.feed("samples", TensorType((batch, self.breadth), dtype))
        samples = build.block(outputs={"out": build.add("relu", Relu(("batch", "in")), x)})
        build = BlockBuilder("head", dtype)
        x = build.input("in", TensorType((batch, self.breadth), dtype))
        targets = build.feed("targets", TensorType((batch,), DType.INT64), self.breadth)
        head = build.block(
            outputs={}, loss=build.add("loss", CrossEntropy(1 / num_tokens, ("batch", "classes")), x, targets)
        )
        instances = [Instance("samples", "samples")]
        for index in range(self.layers):
            instances.append(Instance(f"layers.{index}", "layer", (instances[-1].output("out"),)))
        instances.append(Instance("head", "head", (instances[-1].output("out"),)))
        return Graph({block.name: block for block in (samples, layer, head)}, tuple(instances))


class PerceptronSpec(LayerKeys):
    """A chain of linear layers."""

    kind: ClassVar[str] = "perceptron"
    network: ClassVar[type[Model]] = Perceptron

    breadth: PositiveInt | None = None
    """Perceptron: features of every layer."""
'''

SCENARIO = """\
simcluster: 1
name: a family of its own
cluster: {use: dgx-h100, hosts: 1}
model: {family: perceptron, layers: 4%s}
training: {global_batch: 16, micro_batch: 2, seq_len: 1, precision: fp32, optimizer: sgd}
parallel: {mesh: {pipeline: 2, data: 4}}
"""


FAMILIES = "simcluster.model.families"


@pytest.mark.thorough
def test_a_family_from_an_entry_point_runs_and_its_keys_are_checked_and_described(tmp_path):
    (tmp_path / "own.yaml").write_text(SCENARIO % ", breadth: 64")
    (tmp_path / "lacks.yaml").write_text(SCENARIO % "")
    (tmp_path / "other.yaml").write_text(SCENARIO % ", breadth: 64, heads: 2")
    with installed(tmp_path, FAMILIES, FAMILY) as simcluster:
        ran = simcluster("verify", "own.yaml")
        assert ran.returncode == 0, ran.stderr
        assert "'breadth' is missing" in simcluster("lint", "lacks.yaml").stderr
        assert "a model of the family 'perceptron' has no 'heads'" in simcluster("lint", "other.yaml").stderr
        keys = json.loads(simcluster("schema").stdout)["$defs"]["ModelSpec"]["anyOf"][2]["properties"]
    assert "perceptron" in keys["family"]["enum"]
    assert keys["breadth"]["description"] == "Perceptron: features of every layer."
