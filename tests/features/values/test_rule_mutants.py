"""Wrong rules of sharding are caught: what they plan cannot run, computes something else, or moves more."""

from __future__ import annotations

from functools import cache

import pytest

from simcluster.program import InstructionKind, build
from tests.features.values.layout_mutants import DIMS, INFERENCE, MOVEMENTS
from tests.features.values.plan_mutants import COSTLY, GRADIENTS, SHARDER
from tests.features.values.rule_networks import fault_of, plans
from tests.features.values.uneven_mutants import PADDING, SHARES, TIES, WRITERS
from tests.support.covering import quick

WRONG = [*MOVEMENTS, *DIMS, *INFERENCE, *SHARDER, *GRADIENTS, *PADDING, *SHARES, *TIES, *WRITERS]

SHOWN_BY = {
    "halos lie on the other side": "pictures",
    "corners do not travel": "pictures",
    "windows read no neighbours": "pictures",
    "neighbours' terms are not added": "pictures",
    "sums that pass are forgotten": "shared among layers",
    "all terms count on every rank": "grouped heads",
    "terms are one": "grouped heads",
    "accumulators forget their sums": "shared among layers",
    "shared gradients are partial over all axes": "shared and split apart",
    "results are not moved as their out strategy says": "interleaved",
    "readers in other blocks are not counted": "shared among layers",
    "gradients of tied copies are not summed": "tied over stages",
    "a kernel that adds is left out": "added apart",
    **{str(each): "interleaved as mindspore" for each in INFERENCE},
    **{str(each): "padded" for each in PADDING},
    **{str(each): "shares of the batch" for each in SHARES},
    **{str(each): "several ties over stages" for each in TIES},
    **{str(each): "copies in shards" for each in WRITERS},
    "every neutral element is zero": "padded_rows",
    "all padding counts as zero": "padded_rows",
    "gradients keep what is in their padding": "padded_rows",
    "of several writers of a shard the first counts": "twice in shards",
    "parts of shared gradients are reduced each": "shared among layers",
    "results are sent on unreduced": "shared among layers",
}
"""The network that shows a mutant, where the first ones do not: it is tried first."""


@cache
def networks():
    return dict(plans())


def of(mutant):
    """The networks, with those first that show the mutant."""
    first = SHOWN_BY.get(str(mutant))
    return sorted(networks().items(), key=lambda each: each[0] != first)


def swap(monkeypatch, mutant):
    """Puts a mutant in place."""
    original = vars(mutant.owner)[mutant.name]
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.change(original))


def moved(planned) -> int:
    """Bytes of all collectives of a plan, and something for each."""
    program = build(planned()[0])
    return sum(
        each.num_bytes + 1000
        for part in program.parts
        for run in part.executions
        for each in program.codes[run.code].instructions
        if each.action is InstructionKind.COLLECTIVE
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", networks())
def test_rules_as_they_are_pass(name):
    assert not fault_of(networks()[name])


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", WRONG, ids=str)
def test_a_wrong_rule_is_caught(mutant, monkeypatch):
    swap(monkeypatch, mutant)
    assert any(fault_of(planned) for _, planned in of(mutant))


@pytest.mark.parametrize("mutant", quick(COSTLY, *COSTLY[::3]), ids=str)
def test_a_dear_rule_is_right_and_moves_more(mutant, monkeypatch):
    for _, planned in of(mutant):
        before = moved(planned)
        with monkeypatch.context() as patch:
            swap(patch, mutant)
            if moved(planned) > before:
                assert not fault_of(planned)
                return
    pytest.fail("no network moves more")


@pytest.mark.exhaustive
@pytest.mark.parametrize("mutant", COSTLY, ids=str)
def test_a_dear_rule_is_right_everywhere(mutant, monkeypatch):
    swap(monkeypatch, mutant)
    for name, planned in networks().items():
        assert not fault_of(planned), name


def test_a_gradient_may_take_two_steps_of_one_kind(monkeypatch):
    """Reduced in every micro-batch over some axes and once per step over others: two all-reduces."""
    (never_scattered,) = [each for each in COSTLY if str(each) == "sums are never scattered"]
    swap(monkeypatch, never_scattered)
    for number in (2, 3, 5):
        assert not fault_of(networks()[f"random {number}"])
