"""The search for buckets: never worse than the usual ones, within memory, told, and right in values."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.compose.build import run_alone
from simcluster.simulation.views.plan_description import plan_document
from simcluster.tuning import bucket_search
from tests.support.covering import quick
from tests.support.scenarios import TINY, TINY_GPT, scenario

SEARCH = {"mode": "search"}
AUTO = {"mode": "auto"}
WIDE = {**TINY, "vocab": 2**14, "hidden": 128, "layers": 6, "ffn": 512}
OTHERS = [
    AUTO,
    {"mode": "size", "config": 1},
    {"mode": "size", "config": 4},
    {"mode": "size", "config": 100_000},
]


def step(which, **how):
    return simulate(which, **how).documents["summary"]["step_time_s"]


CASES = st.fixed_dictionaries(
    {
        "mesh": st.sampled_from(
            [{"data": 2}, {"data": 4}, {"pipeline": 2, "data": 2}, {"data": 2, "tensor": 2}]
        ),
        "model": st.builds(
            lambda vocab, hidden, layers, ffn: {
                **TINY,
                "vocab": vocab,
                "hidden": hidden,
                "layers": layers,
                "ffn": ffn,
            },
            st.sampled_from([2**7, 2**12, 2**15]),
            st.sampled_from([32, 128]),
            st.sampled_from([2, 4, 7]),
            st.sampled_from([64, 1024]),
        ),
        "micro_batches": st.sampled_from([2, 4]),
        "training": st.sampled_from(
            [{}, {"optimizer": {"kind": "adamw", "clip": 1.0}}, {"optimizer": "sgd"}]
        ),
    }
)


SHARDED = [
    ({"zero": 0}, ["all_reduce"]),
    ({"zero": 1}, ["reduce_scatter"]),
    ({"zero": 1}, ["all_gather"]),
    ({"zero": 2}, ["reduce_scatter"]),
    ({"zero": 3}, ["all_gather"]),
    ("fsdp", ["reduce_scatter", "all_gather"]),
    ({"fsdp": {"reshard_after_forward": False}}, ["all_gather"]),
    ({"mindspore": "level1", "min_bytes": "0 B"}, ["reduce_scatter", "all_gather"]),
    ({"mindspore": "level3", "min_bytes": "1 kB"}, ["all_reduce", "reduce_scatter", "all_gather"]),
]
ALONE = {"ids": [{"match": "*", "id": 0}]}


@contextmanager
def climbing(steps):
    """A climb of few steps, so that tests of something else are quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_search, "MOST_STEPS", steps)
        yield


@pytest.mark.thorough
@settings(max_examples=3)
@given(CASES, st.sampled_from(SHARDED))
def test_no_usual_bucket_is_faster_nor_the_profiles_own(case, sharding):
    sharded, operations = sharding
    case = {**case, "optimizer_sharding": sharded}

    def all_of(rule, **more):
        return {"fusion": {**dict.fromkeys(operations, rule), **more}}

    with climbing(3):
        found = step(scenario(**case, **all_of(SEARCH)))
    for other in [{}, all_of(AUTO), all_of({"mode": "size", "config": 100_000}), all_of(AUTO, **ALONE)]:
        assert found <= step(scenario(**case, **other))


@pytest.mark.parametrize(("sharded", "operations"), quick(SHARDED[5:8:2], later=[SHARDED[7]]))
def test_climbing_from_the_best_loses_nothing(sharded, operations):
    def found(names):
        fusion = dict.fromkeys(names, SEARCH)
        return step(scenario({"data": 2}, model=WIDE, optimizer_sharding=sharded, fusion=fusion))

    plain = step(scenario({"data": 2}, model=WIDE, optimizer_sharding=sharded))
    climbed = found(operations)
    with climbing(0):
        assert climbed <= found(operations) <= plain


BUSY = [("fsdp", "all_gather"), ("fsdp", "reduce_scatter"), ({"zero": 2}, "reduce_scatter")]


@pytest.mark.parametrize(("sharded", "operation"), quick(BUSY, later=[("fsdp", "reduce_scatter")]))
def test_it_beats_all_that_was_compared_for_what_travels_in_every_micro_batch(sharded, operation):
    def of(rule):
        return step(scenario({"data": 2}, model=WIDE, optimizer_sharding=sharded, fusion={operation: rule}))

    found = of(SEARCH)
    for rule in [*OTHERS, {"mode": "units"}, {"mode": "units", "config": 2}]:
        assert found < of(rule)


def test_gathers_once_per_step_are_cut_as_the_model_says():
    """Nothing else is on the network then: the model is exact, and no bucket of so many layers is better."""

    def of(rule):
        which = scenario({"data": 2}, model=WIDE, optimizer_sharding={"zero": 1}, fusion={"all_gather": rule})
        return step(which)

    found = of(SEARCH)
    for count in range(1, 9, 3):
        assert found <= of({"mode": "units", "config": count})
        assert found <= of({"mode": "index", "config": [9 * count + 1]})


LARGE = {"layers": 11, "hidden": 8192, "heads": 64, "kv_heads": 64, "ffn": 22016, "vocab": 32000}


def test_what_does_not_fit_is_not_found():
    """Where collectives take long to begin, one bucket is faster than layers, but too large."""

    def of(**fusion):
        which = scenario(
            {"data": 8},
            devices=8,
            host="dgx-1v",
            model=LARGE,
            micro_batches=1,
            optimizer_sharding="fsdp",
            recompute={"layers": "all"},
            training={"precision": {"compute": "fp16", "gradients": "fp16"}},
            changes=[{"link": "*", "latency": "+5 ms"}],
            **fusion,
        )
        documents = simulate(which).documents
        (peak,) = documents["summary"]["peak_memory_bytes"]
        return documents["summary"]["step_time_s"], peak["fits"], documents["plan"]["notes"]

    usual, fits, _ = of()
    assert fits
    whole, fits, _ = of(fusion={"all_gather": {"mode": "size", "config": 100_000}})
    assert not fits
    assert whole < usual
    with climbing(4):
        found, fits, (note,) = of(fusion={"all_gather": SEARCH})
    assert fits
    assert found < usual
    assert note.endswith("; too large for memory: one bucket")


def test_it_beats_every_size_where_it_matters():
    found = step(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": SEARCH}))
    for other in OTHERS:
        assert found < step(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": other}))


ROWS = {"states": True, "split": "rows", "min_bytes": "1 kB"}


@pytest.mark.parametrize("sharded", quick([{"zero": 1}, "fsdp", ROWS], later=[{"zero": 1}]))
def test_values_and_both_ways_of_timing_agree(sharded):
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        model=TINY_GPT,
        micro_batches=2,
        recipe="megatron_sp",
        optimizer_sharding=sharded,
        fusion={"all_reduce": SEARCH, "reduce_scatter": SEARCH, "all_gather": SEARCH},
    )
    with climbing(2):
        found = verify(which)
        folded, unfolded = build_scenario(which), build_scenario(which, unfold=True)
    assert found.agrees, found.fault or found.first_difference
    assert folded.program.digest() == unfolded.program.digest()
    assert run_alone(folded).end == run_alone(unfolded).end


def test_the_plan_says_what_was_found_and_against_what():
    document = plan_document(build_scenario(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": SEARCH})))
    (note,) = document["notes"]
    assert note.startswith("search for buckets: ")
    assert "; a step would take longer with 64 MB " in note
    buckets = document["gradient_buckets"]["all_reduce"]
    assert buckets["searched"]
    count = len(buckets["behind"])
    assert count
    assert document["fusion"] == [f"all-reduces of gradients as a search found best, cut in {count} places"]


def test_only_what_may_travel_together_is_cut_together():
    """Gradients with fusion id 0 are no part of any bucket, whatever is found for the others."""
    ids = [{"match": "embedding.*", "id": 0}]
    which = scenario({"data": 2}, model=WIDE, fusion={"all_reduce": SEARCH, "ids": ids})
    embedding = 4 * 2**14 * 128
    program = build_scenario(which).program
    codes = [program.codes[run.code] for run in program.parts[0].executions]
    sizes = [
        each.num_bytes for code in codes if code.phase == "reduce" for each in code.instructions if each.group
    ]
    assert embedding in sizes


def test_without_gradients_to_reduce_nothing_is_searched():
    which = scenario({"tensor": 2}, fusion={"all_reduce": SEARCH})
    assert not any("search for" in each for each in plan_document(build_scenario(which))["notes"])
    assert any("fuses nothing" in each for each in plan_document(build_scenario(which))["notes"])
