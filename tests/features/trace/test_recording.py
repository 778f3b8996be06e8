from dataclasses import fields

import numpy as np
import pytest

from simcluster.analysis import instruction_times
from simcluster.errors import TraceError
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.compose.build import run_alone
from simcluster.simulation.recording import record_run
from simcluster.trace import Recording, recording
from tests.support.scenarios import scenario

SHAPES = {
    "folded": (scenario({"pipeline": 2, "data": 2, "tensor": 2}, run={"steps": 2}), False),
    "unfolded": (scenario({"pipeline": 2, "tensor": 2}), True),
    "alone": (scenario({"data": 2}), False),
}


@pytest.fixture(scope="module", params=SHAPES)
def recorded(request):
    """What was built and its timing, and the recording of it."""
    which, unfold = SHAPES[request.param]
    built = build_scenario(which, unfold=unfold)
    timing = run_alone(built)
    stages = [built.program.stage_of(rank) for rank in built.classes.representatives]
    return built.program, timing, record_run(built.program, stages, timing.classes)


def test_every_instruction_of_every_execution_at_its_time(recorded):
    program, timing, found = recorded
    for index, each in enumerate(timing.classes):
        spans = found.spans(index)
        assert len(spans) == found.sizes[index]
        assert set(spans["class"].tolist()) == {index}
        seen = 0
        for code, times in instruction_times(each).items():
            for at, instruction in enumerate(program.codes[code].instructions):
                mine = spans.where((spans["code"] == code) & (spans["instruction"] == at))
                mine = mine.where(np.argsort(mine["execution"]))
                seen += len(mine)
                assert np.array_equal(mine["execution"], times.executions)
                assert np.array_equal(mine["start"], times.starts[:, at])
                assert np.array_equal(mine["end"], times.ends[:, at])
                assert np.array_equal(mine["arrival"], times.arrivals[:, at])
                executions = [each.part.executions[number] for number in times.executions.tolist()]
                names = [f"{execution.instance}.{instruction.name}" for execution in executions]
                assert mine.text("operator").tolist() == names
                assert mine.text("action").tolist() == [execution.action for execution in executions]
                assert mine["micro_batch"].tolist() == [execution.micro_batch for execution in executions]
                assert set(mine.text("stream").tolist()) == {instruction.stream}
                assert set(mine.text("kind").tolist()) == {str(instruction.action)}
                assert set(mine["bytes"].tolist()) == {instruction.bytes_moved}
                assert set(mine["flops"].tolist()) == {instruction.flops}
        assert seen == len(spans)


def test_spans_are_sorted_and_steps_follow_each_other(recorded):
    _, timing, found = recorded
    for index, each in enumerate(timing.classes):
        spans = found.spans(index)
        order = np.lexsort((spans["instruction"], spans["stream"], spans["start"]))
        assert np.array_equal(order, np.arange(len(spans)))
        counts = np.unique(spans["step"], return_counts=True)
        assert counts[0].tolist() == list(range(each.part.steps)) and len(set(counts[1].tolist())) == 1


def test_the_table_is_that_of_the_classes_one_after_the_other(recorded):
    _, timing, found = recorded
    assert len(found.table()) == len(found) == found.sizes.sum()
    assert found.end == timing.end == found.table()["end"].max()
    chosen = [len(timing.classes) - 1, 0, 0]
    parts = [found.spans(index) for index in chosen]
    table = found.table(chosen)
    for name in recording.COLUMNS:
        assert np.array_equal(table[name], np.concatenate([part[name] for part in parts]))
    assert len(found.table([])) == 0


def test_too_many_spans_for_one_table_are_refused(recorded, monkeypatch):
    *_, found = recorded
    monkeypatch.setattr(recording, "MOST_SPANS", len(found) - 1)
    with pytest.raises(TraceError, match="one table holds at most") as error:
        found.table()
    assert "spans(ranks=[0, 17])" in str(error.value)
    if len(found.classes) > 1:
        assert len(found.table([0])) == found.sizes[0]


def stored(found, *tables):
    names = tables or [each.name for each in fields(Recording)]
    return sum(column.nbytes for name in names for column in getattr(found, name).columns.values())


def test_equal_classes_cost_only_their_times():
    folded, unfolded = (
        simulate(scenario({"pipeline": 2, "tensor": 4}), unfold=unfold).recording for unfold in (False, True)
    )
    assert len(unfolded) == 4 * len(folded) and len(unfolded.classes) == 4 * len(folded.classes)
    for table in ("codes", "prices", "executions"):
        assert stored(unfolded, table) == stored(folded, table)
    assert stored(unfolded, "segments", "transfers", "classes") < len(unfolded) * 24


def test_a_class_of_its_own_price_shares_all_else():
    mesh = {"pipeline": 2, "tensor": 4}
    even = simulate(scenario(mesh), unfold=True).recording
    slow = simulate(scenario(mesh, changes=[{"device": 1, "compute": 0.5}]), unfold=True).recording
    assert stored(slow, "codes", "executions") == stored(even, "codes", "executions")
    assert stored(even, "prices") < stored(slow, "prices") <= 2 * stored(even, "prices")
