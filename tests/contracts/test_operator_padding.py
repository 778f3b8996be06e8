"""Every operator kind on ranks over which its dims do not divide: right, or refused in words.

Padding that nobody asked to be neutral holds no numbers; what an operator says it leaves zero is zero.
"""

from __future__ import annotations

import random

import pytest

from tests.contracts.operator_cases import cases
from tests.contracts.operator_padding import FEW, UNEVEN, findings

every_case = pytest.mark.parametrize("case", cases(), ids=str)


@every_case
def test_padding_changes_no_value_on_three_ranks(case):
    found = findings(case, FEW)
    assert not found.wrong, found.wrong[0]


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


def test_few_dims_are_refused():
    """What windows slide over, what a reshape resizes, and turns over slices; all else is padded."""
    refused, tried = {}, 0
    for case in cases():
        found = findings(case, FEW)
        refused |= found.refused
        tried += found.tried
    assert tried > 1000
    kinds = {name.partition(" ")[0] for name in refused}
    assert kinds == {
        "attention_turn",
        "attention_turn_grad",
        "average_pool2d",
        "average_pool2d_grad",
        "batch_norm",
        "batch_norm_grad",
        "batch_norm_grad_sums",
        "batch_norm_input_grad",
        "batch_norm_sums",
        "batch_normalise",
        "conv2d",
        "conv2d_input_grad",
        "conv2d_weight_grad",
        "max_pool2d",
        "max_pool2d_grad",
        "reshape",
        "running_statistics",
    }
    reasons = {"reshape": "whose padding would not lie", "attention_turn": "which must be equal"}
    for name, reason in refused.items():
        kind = name.partition(" ")[0].removesuffix("_grad")
        assert reasons.get(kind, "windows slide over") in reason
