"""Changes that would make a plan fit: the nearest of each kind, tried, with what they cost."""

from __future__ import annotations

import json

import pytest

from simcluster import units
from simcluster.analysis.memory_usage.memory_verdict import MemoryVerdict
from simcluster.explanation import effort, explain_scenario, explanation_document, explanation_text
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.views.plan_description import plan_document
from simcluster.tuning.memory_knobs import open_knobs

SMALL = "2100 MiB"


def scenario(memory, **parallel):
    """A model that needs 2,227 MiB on each of two devices, and some 90 MiB less per layer recomputed."""
    training = {"global_batch": 16, "micro_batch": 4, "seq_len": 1024, "precision": "bf16"}
    host = {"use": "dgx-h100", "devices": 2, "network": {"nics": 1}}
    device = {"use": "h100-sxm", "memory": memory, "reserved": "0 B", "communicator": "0 B"}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "too large",
            "cluster": {"host": host | {"device": device}, "hosts": 1},
            "model": {"layers": 4, "hidden": 768, "heads": 12, "ffn": 2048, "vocab": 32_000},
            "training": training,
            "parallel": {"mesh": {"data": 2}} | parallel,
        }
    )


def needed(which):
    return simulate(which).documents["summary"]["peak_memory_bytes_max"]


@pytest.fixture(scope="module")
def found():
    return explain_scenario(scenario(SMALL))


def test_what_fits_is_not_tampered_with():
    found = explain_scenario(scenario("60 GiB"))
    assert found.present.fits
    assert found.trials == ()
    assert "It fits" in explanation_text(found)


def test_every_offer_was_simulated_and_fits(found):
    assert not found.present.fits
    kinds = {each.kinds for each in found.fitting}
    assert {("recompute auto",), ("recompute",), ("micro-batch",)} <= kinds
    for each in found.fitting[::3]:
        summary = simulate(scenario(SMALL).changed(each.changes)).documents["summary"]
        assert summary["fits"]
        assert summary["peak_memory_bytes_max"] == each.use.needed
        assert summary["step_time_s"] == each.step
    left = [each.use.left for each in found.fitting]
    assert left == sorted(left, reverse=True)


def test_the_nearest_turn_is_offered(found):
    """One layer fewer would not be enough, nor twice the micro-batch."""
    (again,) = (each for each in found.fitting if each.kinds == ("recompute",))
    ((key, text),) = again.changes
    assert key == "parallel.recompute"
    count = int(text.removeprefix("{layers: ").removesuffix("}"))
    less = scenario(SMALL).changed(((key, f"{{layers: {count - 1}}}"),))
    assert needed(less) > 2100 << 20 >= again.use.needed
    (batch,) = (each for each in found.fitting if each.kinds == ("micro-batch",))
    ((key, size),) = batch.changes
    more = scenario(SMALL).changed(((key, str(2 * int(size))),))
    assert needed(more) > 2100 << 20


@pytest.mark.thorough
def test_several_together_where_none_is_enough():
    quick, found = (
        explain_scenario(scenario("700 MiB"), thorough=all_of_them) for all_of_them in (False, True)
    )
    # What saves most, offload, needs 886 MiB. Pairs take longer than an answer in seconds, which says so.
    assert {len(trial.kinds) for trial in quick.fitting} == {5}
    assert quick.untried and all("," in change.kind for change in quick.untried)
    assert not any(each.fits for each in found.trials if len(each.kinds) == 1)
    assert found.fitting
    assert {len(each.kinds) for each in found.fitting} == {2}
    assert all(len(dict(each.changes)) == len(each.changes) for each in found.fitting)


def test_nothing_helps():
    found = explain_scenario(scenario("200 MiB"))
    assert not found.fitting
    (together,) = (each for each in found.failing if len(each.kinds) > 1)
    assert len(together.kinds) == 5  # one of the mesh, one of recomputation
    assert together.use.needed < min(
        each.use.needed for each in found.failing if len(each.kinds) == 1 and not each.refused
    )
    assert "What would not" in explanation_text(found)
    lacks = [each.use.lacking for each in found.failing if not each.refused]
    assert lacks == sorted(lacks)


@pytest.mark.parametrize(
    ("parallel", "absent"),
    [
        ({"recompute": {"layers": "all"}}, "recompute"),
        ({"recompute": {"layers": "auto"}}, "recompute"),
        ({"recompute": {"layers": 2}}, "recompute auto"),
        ({"optimizer_sharding": {"zero": 3}}, "optimizer sharding"),
        ({"optimizer_sharding": {"mindspore": "level1"}}, "optimizer sharding"),
        ({"mesh": {"tensor": 2}}, "tensor parallelism"),
        ({"mesh": {"tensor": 2}}, "optimizer sharding"),
    ],
)
def test_knobs_that_are_turned_already_are_left_alone(parallel, absent):
    which = scenario(SMALL, **parallel)
    assert absent not in [knob.kind for knob in open_knobs(which, plan_document(build_scenario(which)))]


def test_the_mesh_keeps_its_order_and_its_size():
    which = scenario(SMALL)
    turns = {knob.kind: knob.turns for knob in open_knobs(which, plan_document(build_scenario(which)))}
    assert turns["tensor parallelism"] == ((("parallel.mesh", "{data: 1, tensor: 2}"),),)
    assert turns["pipeline"] == ((("parallel.mesh", "{pipeline: 2, data: 1}"),),)


def test_the_document_says_the_same(found, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # narrower, long settings are cut over two lines
    told = json.loads(json.dumps(explanation_document(found)))
    assert told["verdict"] == "does not fit" and not told["fits"]
    assert [each["fits"] for each in told["changes"]] == sorted(
        (each["fits"] for each in told["changes"]), reverse=True
    )
    text = explanation_text(found)
    for each in told["changes"]:
        assert all(setting.split("=")[0] in text for setting in each["set"])


def torch(memory, **run):
    """The same under a profile whose allocator keeps fragments, with a headroom of a few bytes."""
    spec = scenario(memory).spec.model_dump(mode="json", exclude_unset=True)
    return Scenario.of(spec | {"framework": "megatron-core", "run": {"headroom": "1 MiB"} | run})


def test_what_is_tight_is_no_remedy():
    """Tensors fit where their fragments do not: that is told, and only what has room for both is offered."""
    entry = max(
        simulate(torch("60 GiB")).documents["summary"]["peak_memory_bytes"], key=lambda each: each["total"]
    )
    assert entry["fragments"] > 2
    found = explain_scenario(torch(f"{entry['total'] + entry['fragments'] // 2} B"))
    assert found.present.use.verdict is MemoryVerdict.TIGHT
    assert "It is tight" in explanation_text(found)
    assert found.fitting and not found.hopeless
    for each in (*found.fitting[:2], *found.failing[:2]):
        held = simulate(torch(f"{found.present.use.capacity} B").changed(each.changes)).documents["summary"]
        assert (each in found.fitting) == (held["verdict"] == "fits")


@pytest.mark.thorough
def test_a_remedy_is_no_longer_one_where_it_leaves_less_than_the_headroom():
    found = explain_scenario(torch(SMALL))
    (batch,) = (each for each in found.fitting if each.kinds == ("micro-batch",))
    asked = explain_scenario(torch(SMALL, headroom=f"{batch.use.left + 1} B"))
    assert batch.changes not in [each.changes for each in asked.fitting]


def test_what_is_left_out_is_named_and_told_before(monkeypatch):
    """With effort for the plan alone nothing is tried; what was begun is told before it is."""
    told = []
    monkeypatch.setattr(effort, "FEW_EFFORT", 1)
    explanation = explain_scenario(scenario(SMALL), told.append)
    assert explanation.trials == () and explanation.hopeless
    assert {change.why for change in explanation.untried} == {effort.LEFT_OUT}
    assert {f"trying {change.kind}" for change in explanation.untried} <= set(told)
    assert "Not tried here:" in explanation_text(explanation)


def test_the_first_line_says_that_a_plan_does_not_fit(found):
    _, headline, *_ = explanation_text(found).split("\n")
    assert "would take" in headline and "does not fit" in headline
    assert "not fit" not in explanation_text(explain_scenario(scenario("60 GiB"))).split("\n")[1]


def test_what_is_lacking_is_with_the_headroom(found):
    use = found.present.use
    assert use.lacking == use.needed + use.headroom - use.capacity
    assert f"{units.size(use.lacking)} are lacking" in " ".join(explanation_text(found).split())
