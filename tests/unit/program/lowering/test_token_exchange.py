"""Rows that tokens send once to a rank with several of their experts: all choices counted."""

from __future__ import annotations

from itertools import combinations

import pytest

from simcluster.program.lowering.token_exchange import share_sent_once


@pytest.mark.parametrize(("experts", "chosen", "ranks"), [(8, 2, 4), (8, 3, 2), (12, 4, 3), (6, 2, 6)])
def test_the_share_is_the_mean_over_all_choices(experts, chosen, ranks):
    choices = list(combinations(range(experts), chosen))
    reached = sum(len({expert * ranks // experts for expert in choice}) for choice in choices)
    assert share_sent_once(experts, chosen, ranks) == pytest.approx(reached / chosen / len(choices))


def test_published_dispatchers_send_five_of_eight_rows_on_eight_ranks():
    assert share_sent_once(128, 8, 8) * 8 == pytest.approx(5.3, abs=0.1)
