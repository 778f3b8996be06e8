"""The search for gradient buckets: never worse than the usual ones, told, and right in values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.simulation import prepare, simulate, verify
from simcluster.simulation.documents import plan_document
from tests.scenarios import TINY, TINY_GPT, scenario

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


@settings(max_examples=12, deadline=None)
@given(CASES, st.sampled_from([({"zero": 0}, "all_reduce"), ({"zero": 1}, "reduce_scatter")]))
def test_no_usual_bucket_is_faster(case, sharding):
    sharded, operation = sharding
    found = step(scenario(**case, optimizer_sharding=sharded, fusion={operation: SEARCH}))
    for other in [{operation: AUTO}, {operation: {"mode": "size", "config": 100_000}}]:
        assert found <= step(scenario(**case, optimizer_sharding=sharded, fusion=other))
    alone = {operation: AUTO, "ids": [{"match": "*", "id": 0}]}
    assert found <= step(scenario(**case, optimizer_sharding=sharded, fusion=alone))


def test_it_beats_every_size_where_it_matters():
    found = step(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": SEARCH}))
    for other in OTHERS:
        assert found < step(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": other}))


@pytest.mark.parametrize(
    "sharded", [{"zero": 0}, {"zero": 1}, {"states": True, "split": "rows", "min_bytes": "1 kB"}]
)
def test_values_and_both_ways_of_timing_agree(sharded):
    which = scenario(
        {"pipeline": 2, "data": 2, "tensor": 2},
        model=TINY_GPT,
        micro_batches=2,
        recipe="megatron_sp",
        optimizer_sharding=sharded,
        fusion={"all_reduce": SEARCH, "reduce_scatter": SEARCH},
    )
    found = verify(which)
    assert found.agrees, found.fault or found.first_difference
    assert step(which) == step(which, unfold=True)
    assert prepare(which).program.digest() == prepare(which).program.digest()


def test_the_plan_says_what_was_found_and_against_what():
    document = plan_document(prepare(scenario({"data": 2}, model=WIDE, fusion={"all_reduce": SEARCH})))
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
    program = prepare(which).program
    codes = [program.codes[run.code] for run in program.parts[0].executions]
    sizes = [
        each.num_bytes for code in codes if code.phase == "reduce" for each in code.instructions if each.group
    ]
    assert embedding in sizes


def test_without_gradients_to_reduce_nothing_is_searched():
    which = scenario({"tensor": 2}, fusion={"all_reduce": SEARCH})
    assert not any("search for" in each for each in plan_document(prepare(which))["notes"])
    assert any("fuses nothing" in each for each in plan_document(prepare(which))["notes"])
