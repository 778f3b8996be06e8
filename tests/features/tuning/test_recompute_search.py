"""``recompute: auto``: what is chosen, that nothing less fits, and that it is said."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from simcluster.document import validate_data
from simcluster.model import Phase
from simcluster.plan.spec.recompute_spec import RecomputeSpec
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.tuning.recompute_options import RecomputeOption, _hull, recompute_options_of
from tests.support.scenarios import TINY_GPT

MODEL = {"layers": 6, "hidden": 64, "heads": 8, "kv_heads": 4, "ffn": 192, "vocab": 128}
STAGES = {"pipeline": 2, "data": 2}


def scenario(mesh, recompute, memory=None, model=MODEL, **parallel):
    """A plan on one host of devices with this memory (bytes)."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    device = {"use": "xeon-8480"} | ({"memory": f"{memory} B"} if memory else {})
    host = {"use": "cpu-server", "devices": ranks, "device": device, "network": {"nics": 1}}
    return Scenario.of(
        {
            "simcluster": 1,
            "name": "auto",
            "cluster": {"host": host, "hosts": 1},
            "model": model,
            "training": {"global_batch": 8 * mesh.get("data", 1), "micro_batch": 2, "seq_len": 16},
            "parallel": {"mesh": mesh, "recompute": recompute, **parallel},
        }
    )


def peaks(found):
    return [each["total"] for each in found.documents["summary"]["peak_memory_bytes"]]


def kept(mesh, **options):
    """The largest peak of any rank if everything is kept, and if everything is recomputed."""
    return tuple(max(peaks(simulate(scenario(mesh, layers, **options)))) for layers in ("none", "all"))


def test_what_fits_is_left_alone():
    found = build_scenario(scenario(STAGES, "auto")).plan
    assert found.recompute == RecomputeSpec()
    assert any("everything fits" in note for note in found.notes)


@pytest.mark.combinations
@pytest.mark.parametrize("share", [0.15, 0.9])
@pytest.mark.parametrize("auto", ["auto", {"layers": "auto", "collectives": False}])
@pytest.mark.parametrize(
    ("mesh", "options"), [(STAGES, {}), ({"tensor": 2, "data": 2}, {"recipe": "megatron"})]
)
def test_it_fits_and_costs_no_more_than_it_must(mesh, options, share, auto):
    """``share`` of what recomputing everything would save has to be saved."""
    most, least = kept(mesh, **options)
    memory = round(most - share * (most - least))
    found = simulate(scenario(mesh, auto, memory, **options))
    assert found.documents["summary"]["fits"]
    whole = simulate(scenario(mesh, "all", memory, **options))
    times = [run.documents["summary"]["step_time_s"] for run in (found, whole)]
    assert times[0] < times[1]
    note = next(note for note in found.documents["plan"]["notes"] if note.startswith("recompute auto"))
    assert re.search(r"a step takes [\d.]+ % longer;.* to keep everything would take .* more", note)


@pytest.mark.parametrize("share", [0.5])
def test_what_was_chosen_can_be_written_and_is_the_same_plan(share):
    most, least = kept(STAGES)
    memory = round(most - share * (most - least))
    chosen = build_scenario(scenario(STAGES, "auto", memory))
    written = chosen.plan.recompute.model_dump(mode="json", exclude_defaults=True)
    again = build_scenario(scenario(STAGES, written, memory))
    assert again.program.digest() == chosen.program.digest()
    assert validate_data(written, RecomputeSpec) == chosen.plan.recompute


def test_it_is_no_slower_than_any_number_of_whole_layers_that_fits():
    """Every number of layers by hand: what auto gives fits as well and is not slower."""
    mesh, layers = {"data": 1}, MODEL["layers"]
    levels = []
    for number in range(layers + 1):
        run = simulate(scenario(mesh, number or "none"))
        levels.append(peaks(run)[0])
    assert levels == sorted(levels, reverse=True)
    for number in (2,):
        found = build_scenario(scenario(mesh, "auto", levels[number])).plan
        times = {
            recompute if isinstance(recompute, int) else "auto": simulate(
                scenario(mesh, recompute, levels[number])
            ).documents["summary"]["step_time_s"]
            for recompute in (number, "auto")
        }
        assert times["auto"] <= times[number]
        written = found.recompute.model_dump(mode="json", exclude_defaults=True)
        assert peaks(simulate(scenario(mesh, written)))[0] <= levels[number]


def test_where_nothing_fits_the_least_is_lacking():
    most, least = kept(STAGES)
    run = simulate(scenario(STAGES, "auto", least - 1000))
    assert not run.documents["summary"]["fits"]
    assert max(peaks(run)) == least
    assert any("nothing fits, the best lacks" in note for note in run.documents["plan"]["notes"])
    assert most > least


def test_stages_climb_only_as_far_as_they_must():
    """The first of two stages holds two micro-batches, the last one."""
    model = {**MODEL, "tied": False}
    mesh = {"pipeline": 2}
    first, last = peaks(simulate(scenario(mesh, "none", model=model)))
    memory = (first + last) // 2
    chosen = build_scenario(scenario(mesh, "auto", memory, model=model)).plan
    changed = {
        instance.stage
        for instance in chosen.graph.instances
        if any(node.name.endswith(".recompute") for node in chosen.graph.block_of(instance).nodes)
    }
    assert changed == {0}


def test_values_of_what_was_chosen():
    most, least = kept(STAGES, model=TINY_GPT)
    memory = round(most - 0.4 * (most - least))
    found = verify(scenario(STAGES, "auto", memory, model=TINY_GPT))
    assert found.agrees, found.fault or found.first_difference


# -- the ladder -----------------------------------------------------------------------------------------


def test_the_cheapest_goes_first_and_the_last_keeps_inputs_only():
    graph = build_scenario(scenario({"data": 1}, "none")).plan
    block = graph.graph.block_of(graph.graph.instances[1])
    spent = {node.name: 1 + 10 * ("norm" in node.name) for node in block.nodes}
    rungs = recompute_options_of(block, spent, graph.mesh)
    whole = build_scenario(scenario({"data": 1}, "all")).plan.graph
    read = {value for node in block.phase(Phase.BACKWARD) for value in node.inputs}
    again = whole.block_of(whole.instances[1])
    assert rungs[-1].saved == sum(
        value.type.num_bytes
        for name, value in block.values.items()
        if name in read and f"{name}.recompute" in again.values
    )
    assert [rung.saved for rung in rungs] == sorted(rung.saved for rung in rungs)
    slopes = [
        (high.spent - low.spent) / (high.saved - low.saved)
        for low, high in pairwise([RecomputeOption(frozenset(), 0, 0), *rungs])
    ]
    assert slopes == sorted(slopes)
    for low, high in pairwise(rungs):
        assert low.operators < high.operators


def test_what_a_mixture_beats_is_left_out():
    def rung(saved, spent):
        return RecomputeOption(frozenset({f"{saved}"}), saved, spent)

    assert _hull([rung(10, 10), rung(20, 100), rung(30, 40)]) == [rung(10, 10), rung(30, 40)]
    assert _hull([rung(10, 10), rung(20, 20), rung(30, 60)]) == [rung(20, 20), rung(30, 60)]
    assert _hull([rung(10, 10), rung(10, 20)]) == [rung(10, 10)]
