"""Algorithms that a scenario names reach the planner's costs, the engine's prices and the layouts."""

from __future__ import annotations

from copy import deepcopy

import pytest

from simcluster.collectives import Operation, collective_time
from simcluster.errors import PlanError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.views.operator_layouts import layouts_document
from tests.support.covering import quick
from tests.support.scenario_texts import SMALL

DATA = {
    "simcluster": 1,
    "name": "small",
    "cluster": {"use": "dgx-a100", "hosts": 2},
    "model": {"layers": 2, "hidden": 512, "heads": 8, "ffn": 1024, "vocab": 1024},
    "training": {"global_batch": 8, "micro_batch": 1, "seq_len": 512, "precision": "bf16"},
    "parallel": {"mesh": {"data": 8, "tensor": 2}, "recipe": "megatron"},
}


def scenario(**collectives) -> Scenario:
    data = deepcopy(DATA)
    return Scenario.of(data | ({"collectives": collectives} if collectives else {}))


def priced(which: Scenario) -> dict[tuple[str, int, str], set[int]]:
    """Nanoseconds of every all-reduce, by stream, bytes and operation."""
    spans = simulate(which).spans
    found: dict[tuple[str, int, str], set[int]] = {}
    rows = zip(
        spans.text("stream"),
        spans["bytes"],
        spans.text("operator"),
        spans["end"] - spans["start"],
        strict=True,
    )
    for stream, size, operator, taken in rows:
        if "all_reduce" in operator and "slice" not in operator:
            found.setdefault((str(stream).split(" ")[0], int(size), "all_reduce"), set()).add(int(taken))
    return found


def closed_form(which: Scenario, kind: str, key: tuple[str, int, str]) -> int:
    built = build_scenario(which)
    axes = tuple(key[0].split("+"))
    span = built.cluster.placements(built.plan.mesh.groups(axes))[0][0]
    return collective_time(Operation.ALL_REDUCE, span, key[1], built.cluster, kind).duration_ns


@pytest.mark.parametrize("key", quick(["algorithm", "all_reduce"], "all_reduce"))
@pytest.mark.parametrize("kind", ["ring", "tree"])
def test_the_engine_charges_the_named_algorithm(key, kind):
    which = scenario(**{key: kind})
    found = priced(which)
    assert len(found) > 1
    for each, taken in found.items():
        assert taken == {closed_form(which, kind, each)}


def test_ring_and_tree_differ_here_and_auto_is_neither_slower():
    ring, tree, auto = (priced(scenario(algorithm=kind)) for kind in ("ring", "tree", "auto"))
    assert ring.keys() == tree.keys() == auto.keys()
    assert any(ring[key] != tree[key] for key in ring)
    assert all(max(auto[key]) == min(max(ring[key]), max(tree[key])) for key in auto)


def test_absent_is_automatic():
    assert priced(scenario()) == priced(scenario(algorithm="auto"))
    assert not [note for note in build_scenario(scenario()).plan.notes if "scenario says" in note]


def test_the_layouts_show_the_named_algorithms_cost():
    def seconds(**collectives: str) -> list[float]:
        built = build_scenario(scenario(**collectives))
        return [
            node["seconds"]
            for block in layouts_document(built)
            for node in block["nodes"]
            if "all_reduce" in node["kind"]
        ]

    ring, tree = seconds(all_reduce="ring"), seconds(all_reduce="tree")
    assert len(ring) == len(tree) and ring != tree


def test_the_plan_says_what_was_named():
    (note,) = (note for note in build_scenario(scenario(all_reduce="tree")).plan.notes if "scenario" in note)
    assert note == "all_reduce by tree, as the scenario says; the rest by the fastest"


def test_a_refusal_points_into_the_file(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(SMALL + "collectives: {algorithm: auto, all_gather: tree}\n")
    with pytest.raises(Exception, match=r"wrong\.yaml:9:44: algorithm 'tree' cannot do all_gather"):
        Scenario.load(file)


def test_an_override_reaches_the_collectives_it_names_and_no_others():
    plain, slowed = (
        scenario(),
        scenario(
            overrides=[{"match": "layers.*.{out,down,dgrad}.all_reduce", "protocol": "ll", "channels": 1}]
        ),
    )
    before, after = priced(plain), priced(slowed)
    assert before.keys() == after.keys()
    slower = [key for key in before if max(after[key]) > 2 * max(before[key])]
    assert slower and {key[0] for key in slower} == {"tensor"}
    assert all(after[key] == before[key] for key in before if key[0] != "tensor")


def test_an_override_for_one_of_several_layers_that_share_code_is_an_error():
    with pytest.raises(PlanError, match="run the same code, but only one of them is overridden"):
        simulate(scenario(overrides=[{"match": "layers.0.mlp.*", "algorithm": "tree"}]))


def test_an_override_that_fits_nothing_is_an_error():
    with pytest.raises(PlanError, match=r"no collective has a name that fits 'layer\.\*'") as caught:
        simulate(scenario(overrides=[{"match": "layer.*", "algorithm": "tree"}]))
    assert "layers." in str(caught.value)
