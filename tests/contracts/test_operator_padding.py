"""Every operator kind on ranks over which its dims do not divide: right, or refused in words."""

from __future__ import annotations

import pytest

from tests.contracts.operator_cases import cases
from tests.contracts.operator_padding import UNEVEN, findings


@pytest.mark.parametrize("case", cases(), ids=str)
def test_padding_changes_no_value(case):
    for ranks in UNEVEN:
        found = findings(case, ranks)
        assert not found.wrong, found.wrong[0]
