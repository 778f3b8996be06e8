"""Every buffer is released as it was booked: no category of memory goes below zero, by program or by time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import SimclusterError, SimulationError
from simcluster.program import Category, Executions, Scope, check_program
from simcluster.simulation import build_scenario, simulate
from tests.support.scenarios import TINY, scenario, under

ONE_KEY = {**TINY, "kv_heads": 1}
T5 = {"family": "t5", "encoder_layers": 3, "decoder_layers": 1, "hidden": 32, "heads": 4, "vocab": 100}
MIXTURE = {**TINY, "experts": {"count": 4, "top_k": 2, "ffn": 16, "shared": 1}}
QUERY = {
    "family": "gpt",
    "layers": 4,
    "hidden": 256,
    "heads": 4,
    "vocab": 100,
    "max_positions": 512,
    "query_layer": True,
}
MEGATRON = {"recipe": "megatron_sp", "redistribution": "mindspore"}
PLANS = {
    "slices": ({"pipeline": 2, "tensor": 2}, {"model": ONE_KEY, "schedule": "seqpipe"}),
    "slices of two chunks": ({"pipeline": 2, "tensor": 2}, {"model": ONE_KEY, "schedule": "seqvpp"}),
    "slices, less memory": ({"pipeline": 2, "tensor": 2}, {"model": ONE_KEY, "schedule": "seqsmartvpp"}),
    "encoder and decoder": ({"tensor": 2}, {"model": T5, "recipe": "megatron"}),
    "mixture": ({"expert": 2, "tensor": 2}, {"model": MIXTURE, "micro_batches": 8, **MEGATRON}),
    "late copies": (
        {"data": 2},
        {
            "model": QUERY,
            "host": "dgx-h100",
            "training": {"seq_len": 512},
            "offload": {"activations": "host"},
        },
    ),
}


def lowest(memory):
    """The least that anything of any buffer comes to under any category, on any class of ranks."""
    columns = [memory[each] for each in ("class", "category", "buffer", "micro_batch")]
    order = np.lexsort((-memory["bytes"], memory["time"], *columns))
    level = np.cumsum(memory["bytes"][order])
    new = np.any([np.diff(column[order], prepend=-2) != 0 for column in columns], axis=0)
    before = np.append(0, level[:-1])[new]
    return (level - before[np.cumsum(new) - 1]).min()


@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_released_that_was_not_booked_so(name):
    mesh, more = PLANS[name]
    assert_books_balance(scenario(mesh, **more))


@pytest.mark.parametrize("framework", ["nemo", "mindspeed-llm"])
def test_what_a_bucket_scatters_is_released_as_its_layer_books_it(framework):
    """Gradients of the tables that layers share arrive by a movement, in the layers' own block."""
    t5 = {**T5, "encoder_layers": 1, "decoder_layers": 3}
    sharding = {"zero": 3}
    which = scenario({"pipeline": 2, "data": 2}, model=t5, host="dgx-h100", optimizer_sharding=sharding)
    assert_books_balance(under(which, use=framework))


def assert_books_balance(which):
    """Nothing falls below zero, and what micro-batches book they release."""
    run = simulate(which)
    assert lowest(run.memory) == 0
    grown = run.memory.where(run.memory["micro_batch"] >= 0)
    assert not np.bincount(grown["category"], weights=grown["bytes"]).any()


@st.composite
def plans(draw):
    """Plans in which movements make what other blocks, slices and stages read."""
    mesh = {"pipeline": draw(st.sampled_from([1, 2])), "tensor": draw(st.sampled_from([1, 2]))}
    more = {
        "model": draw(st.sampled_from([ONE_KEY, T5, MIXTURE])),
        "recipe": draw(st.sampled_from(["megatron", "megatron_sp", "pangu"])),
        "redistribution": draw(st.sampled_from(["shortest", "mindspore"])),
        "optimizer_sharding": {"zero": draw(st.integers(0, 3))},
        "recompute": {"layers": draw(st.sampled_from(["none", "all"]))},
    }
    if mesh["pipeline"] > 1:
        kinds = ["gpipe", "1f1b", "interleaved", "zb_h1", "v_half", "seqpipe"]
        more["schedule"] = draw(st.sampled_from(kinds))
    return scenario({axis: size for axis, size in mesh.items() if size > 1} or {"data": 2}, **more)


@settings(max_examples=3)
@given(st.data())
def test_plans_release_what_they_book(data):
    """The checker, which every plan passes before it is run, finds what the account would show."""
    try:
        made = data.draw(plans())
        run = simulate(made)
    except SimulationError:
        raise
    except SimclusterError:
        return
    assert lowest(run.memory) == 0


def crossing(program):
    """The number of a code and of one of its slots that it releases and another code books."""
    for number, code in enumerate(program.codes):
        for slot in code.dropped:
            if code.slots[slot].scope is Scope.MICRO_BATCH and slot not in code.books:
                return number, slot
    raise AssertionError


def changed(built, number, **what):
    """The Program with another code in the place of one."""
    codes = list(built.program.codes)
    codes[number] = replace(codes[number], **what)
    return replace(built.program, codes=tuple(codes))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            {"category": Category.RUNTIME},
            r"releases .* as [\d,]+ bytes of runtime on the device, but .* books",
        ),
        ({"num_bytes": 1 << 40}, r"as 1,099,511,627,776 bytes of .*, but .* books .* as [\d,]+ bytes of"),
        ({"name": "other"}, "releases .*other as .*, which nothing books"),
    ],
    ids=["category", "size", "name"],
)
def test_a_release_unlike_its_booking_is_refused(what, said):
    built = build_scenario(scenario({"pipeline": 2}))
    number, slot = crossing(built.program)
    slots = list(built.program.codes[number].slots)
    slots[slot] = replace(slots[slot], **what)
    with pytest.raises(SimulationError, match=said):
        check_program(changed(built, number, slots=tuple(slots)), built.classes)


def test_a_release_before_its_booking_is_refused():
    built = build_scenario(scenario({"data": 2}))
    (part,) = built.program.parts
    backwards = replace(part, columns=Executions.of(part.executions[::-1]))
    with pytest.raises(SimulationError, match="before it is booked"):
        check_program(replace(built.program, parts=(backwards,)), built.classes)
