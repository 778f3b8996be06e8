"""Every operator kind on ranks over which its dims do not divide: right, or refused in words.

Padding that nobody asked to be neutral holds no numbers; what an operator says it leaves zero is zero.
"""

from __future__ import annotations

import random

import pytest

from tests.contracts.operator_cases import cases, quick_cases
from tests.contracts.operator_padding import FEW, UNEVEN, findings

WINDOWS = "windows slide over"
REFUSED = dict.fromkeys(
    """
    average_pool2d average_pool2d_grad batch_norm batch_norm_grad batch_norm_grad_sums batch_norm_input_grad
    batch_norm_sums batch_normalise conv2d conv2d_input_grad conv2d_weight_grad max_pool2d max_pool2d_grad
    running_statistics
    """.split(),  # noqa: SIM905 - one word a line would be a page
    WINDOWS,
) | {
    "attention_turn": "which must be equal",
    "attention_turn_grad": "which must be equal",
    "indexer_loss_grad": "no value is known that would add nothing",
    **dict.fromkeys(("part_log_sum_exp", "part_rows", "part_softmax", "picked_rows"), "which must be equal"),
    "reshape": "whose padding would not lie",
}
"""Kinds of operators of which some dims are not padded, and why."""
every_case = pytest.mark.parametrize("case", cases(), ids=str)
one_of_each_kind = quick_cases(cases())


@one_of_each_kind
def test_padding_changes_no_value_on_three_ranks(case):
    """Or it is refused: of what windows slide over, of what a reshape resizes, and of turns over slices."""
    found = findings(case, FEW)
    assert not found.wrong, found.wrong[0]
    for name, reason in found.refused.items():
        kind = name.partition(" ")[0]
        assert kind in REFUSED, name
        assert REFUSED[kind] in reason


@pytest.mark.thorough
@pytest.mark.parametrize("case", random.Random(6).sample(cases(), len(cases()) // 10), ids=str)
def test_padding_of_several_dims_changes_no_value(case):
    assert_right(case)


@pytest.mark.exhaustive
@every_case
def test_padding_of_several_dims_of_any_operator_changes_no_value(case):
    assert_right(case)


def assert_right(case):
    for ranks in UNEVEN:
        found = findings(case, ranks)
        assert not found.wrong, found.wrong[0]


@pytest.mark.thorough
def test_few_dims_are_refused():
    found = [findings(case, FEW) for case in cases()]
    assert {name.partition(" ")[0] for each in found for name in each.refused} == {*REFUSED}
    assert sum(each.tried for each in found) > 1000
