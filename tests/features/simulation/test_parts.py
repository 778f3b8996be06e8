"""An all-to-all-v of a Program: each group takes as long as its own parts, and equal groups are one class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.collectives import Operation, UnequalPartsByGroup, collective_time
from simcluster.program.isa.instruction import InstructionKind
from simcluster.simulation import simulate
from simcluster.simulation.compose import build
from simcluster.simulation.compose.build import build_scenario
from tests.support.folding import assert_folded_is_unfolded
from tests.support.scenarios import TINY, scenario

GROUPS, RANKS, SIZE = 4, 4, 2**20


def tables(*of_group: int) -> UnequalPartsByGroup:
    """Tables by number: equal parts, one hot rank, another hot rank, drawn."""
    equal = np.full((RANKS, RANKS), 4)
    first, second = np.zeros_like(equal), np.zeros_like(equal)
    first[:, 0], second[:, 2] = 16, 16
    drawn = np.random.default_rng(0).integers(0, 9, equal.shape)
    return UnequalPartsByGroup.of([(equal, first, second, drawn)[number] for number in of_group])


@pytest.fixture
def exchanging(monkeypatch):
    """Scenarios whose all-reduces over tensor ranks are all-to-all-v with these parts instead."""
    build_program = build.build

    def use(parts: UnequalPartsByGroup, ranks_per_host: int = 2):
        def changed(plan):
            program = build_program(plan)
            codes = tuple(
                replace(
                    code,
                    instructions=tuple(
                        replace(each, operation="all_to_all_v", num_bytes=SIZE, parts=parts)
                        if each.action is InstructionKind.COLLECTIVE and each.group == ("tensor",)
                        else each
                        for each in code.instructions
                    ),
                )
                for code in program.codes
            )
            return replace(program, codes=codes)

        monkeypatch.setattr(build, "build", changed)
        return scenario(
            {"data": GROUPS, "tensor": RANKS},
            model={**TINY, "layers": 1},
            micro_batches=1,
            devices=ranks_per_host,
            recipe="megatron",
        )

    return use


def exchanges(result) -> dict[int, set[int]]:
    """Nanoseconds of the all-to-alls by class."""
    spans = result.spans
    mine = spans["bytes"] == SIZE
    taken = spans["end"] - spans["start"]
    return {
        index: set(taken[mine & (spans["class"] == index)].tolist()) for index in np.unique(spans["class"])
    }


def test_groups_of_one_table_are_one_class(exchanging):
    """Its members differ, since their cards carry more or less while gradients meet there."""
    built = build_scenario(exchanging(tables(3, 3, 3, 3)))
    assert (built.classes.of_rank.reshape(GROUPS, RANKS) == np.arange(RANKS)).all()
    assert len({group.id for (_, axes), group in built.classes.groups.items() if axes == ("tensor",)}) == 1
    assert_folded_is_unfolded(built.scenario)


def test_groups_of_different_tables_are_different_classes(exchanging):
    which = exchanging(tables(0, 1, 1, 3))
    built = build_scenario(which)
    rows = built.classes.of_rank.reshape(GROUPS, RANKS)
    assert np.array_equal(rows[1], rows[2])
    assert not set(rows[0]) & set(rows[1]) and not set(rows[3]) & {*rows[0], *rows[1]}
    assert_folded_is_unfolded(which)


def test_each_group_takes_what_its_parts_take(exchanging):
    parts = tables(0, 1, 2, 3)
    which = exchanging(parts)
    built, taken = build_scenario(which), exchanges(simulate(which))
    where = built.cluster.placement(range(RANKS))
    for group in range(GROUPS):
        wanted = collective_time(
            Operation.ALL_TO_ALL_V, where, SIZE, built.cluster, parts=parts.of_number(group)
        ).duration_ns
        assert taken[built.classes.of_rank[group * RANKS]] == {wanted}
    assert len({min(each) for each in taken.values()}) == 3  # which rank is hot makes no difference
    assert_folded_is_unfolded(which)


def test_equal_tables_are_the_plain_all_to_all(exchanging, monkeypatch):
    equal = simulate(exchanging(tables(0, 0, 0, 0)))
    monkeypatch.undo()
    built = build_scenario(
        scenario({"data": GROUPS, "tensor": RANKS}, model=TINY, devices=2, recipe="megatron")
    )
    where = built.cluster.placement(range(RANKS))
    wanted = collective_time(Operation.ALL_TO_ALL, where, SIZE, built.cluster).duration_ns
    assert set().union(*exchanges(equal).values()) == {wanted}


def test_a_programs_digest_tells_tables_apart(exchanging):
    digests = {
        build_scenario(exchanging(tables(*numbers))).program.digest()
        for numbers in ((0, 0, 0, 0), (0, 1, 1, 3), (1, 0, 1, 3))
    }
    assert len(digests) == 3
