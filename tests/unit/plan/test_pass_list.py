"""Passes as a list: what it runs, prints, and tells of the graph behind each of them."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from simcluster.errors import PlanError
from simcluster.model import Role, TensorType, graph_digests
from simcluster.plan import PASSES, PassList, passes
from simcluster.work import DType
from tests.support.pass_lists import listed


def test_the_graph_behind_the_last_pass_is_that_of_the_list():
    passes = listed()
    names = [name for name, _ in passes.graphs()]
    assert names == ["place", "differentiate", "fuse"]
    assert passes.after("fuse") == passes.graph
    assert passes.graph != passes.after("differentiate") != passes.start


def test_equal_lists_have_equal_digests():
    assert listed().digests() == listed().digests()


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        (listed(pairs=frozenset({("norm", "matmul"), ("matmul", "pointwise")})), "fuse"),
        (listed(gradients=DType.BF16), "differentiate"),
    ],
)
def test_a_change_in_a_pass_changes_the_digests_from_there_on(changed, first):
    before, after = listed().digests(), changed.digests()
    names = list(before)
    assert list(after) == names
    different = [name for name in names if before[name] != after[name]]
    assert different == names[names.index(first) :]


def test_digests_do_not_depend_on_the_hash_seed():
    """Those of this process are drawn."""
    code = "from tests.support.pass_lists import listed; print(dict(listed().digests()))"
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    text = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout
    assert text.decode() == f"{dict(listed().digests())}\n"


def test_names_of_blocks_and_reasons_do_not_count():
    passes = listed()
    blocks = {
        f"other {name}": replace(block, nodes=tuple(replace(node, why="so") for node in block.nodes))
        for name, block in passes.start.blocks.items()
    }
    instances = tuple(replace(each, block=f"other {each.block}") for each in passes.start.instances)
    renamed = PassList.of(replace(passes.start, blocks=blocks, instances=instances)).then(*passes.passes)
    assert renamed.digests() == passes.digests()


@pytest.mark.parametrize("field", ["type", "role", "name", "stage", "origin", "ties"])
def test_what_lowering_reads_counts(field):
    graph = listed().start
    name, block = next(iter(graph.blocks.items()))
    value = next(iter(block.values))
    node = block.nodes[0]
    first = graph.instances[0]
    values = {"type": replace(block.values[value], type=TensorType((3,), DType.FP32))}
    values["role"] = replace(block.values[value], role=Role.BUFFER)
    nodes = {"name": replace(node, name="other"), "origin": replace(node, origin="other")}
    if field in values:
        changed = graph.with_blocks(
            {**graph.blocks, name: replace(block, values={**block.values, value: values[field]})}
        )
    elif field in nodes:
        changed = graph.with_blocks(
            {**graph.blocks, name: replace(block, nodes=(nodes[field], *block.nodes[1:]))}
        )
    elif field == "stage":
        changed = replace(graph, instances=(replace(first, stage=7), *graph.instances[1:]))
    else:
        changed = replace(graph, ties=(("embedding.tokens.weight", "head.weight"),))
    before, after = graph_digests([graph, changed])
    assert before != after


def test_a_list_prints_with_short_settings():
    lines = str(listed()).splitlines()
    assert [line.partition("(")[0] for line in lines] == ["place", "differentiate", "fuse"]
    assert lines[0].startswith("place(layers=(1, 1)): The graph with its layers on virtual stages")
    assert lines[2].startswith("fuse(together=False): The graph with kernel names")


def test_a_pass_that_is_not_run_is_told_from_one_that_there_is_not():
    with pytest.raises(PlanError) as refused:
        listed().after("offload")
    assert "this plan does not run pass 'offload'" in str(refused.value)
    with pytest.raises(PlanError) as refused:
        listed().after("fsue")
    assert refused.value.problems[0].message == "there is no pass 'fsue'"
    assert refused.value.problems[0].hint == (
        "did you mean 'fuse'? this plan runs: place, differentiate, fuse"
    )


def test_the_list_of_names_has_every_pass():
    written = re.findall(r'Pass\(\s*"(\w+)"', inspect.getsource(passes))
    assert set(PASSES) == set(written)
    assert len(PASSES) == len(set(PASSES))
