"""Keys of parameter servers that move when servers come and go: bytes and seconds by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.simulation.jobs.key_moves import LinkKeyMoves

FIRST = 4
"""Workers are devices 0 to 3."""


def moves(servers=3, dense=(10, 20, 30, 40), tables=((9, 100),)):
    """Every server has a link out and a link in of 10 bytes/s."""
    last = FIRST + servers
    pairs = [(src, dst) for src in range(FIRST, last) for dst in range(last) if src != dst]
    return LinkKeyMoves(
        FIRST,
        servers,
        dense,
        tables,
        tuple(size // 2 for size in dense),
        {(src, dst): (src, 100 + dst) for src, dst in pairs},
        {link: 10.0 for src, dst in pairs for link in (src, 100 + dst)},
    )


def test_dense_keys_go_by_modulo_and_rows_in_contiguous_parts():
    """Of three servers the last leaves. Key 2 (30) goes to server 0, key 3 (40) from 0 to 1; rows 3 and 4 of
    nine from server 1 to 0, and 6 to 8 from server 2 to 1. Server 0 gets 230, server 1 gets 340.
    """
    moved = moves().moved(frozenset(), frozenset({FIRST + 2}), frozenset())
    assert moved.num_bytes == 30 + 40 + 200 + 300
    assert moved.seconds == (40 + 300) / 10


def test_a_server_that_failed_gives_nothing():
    gone = frozenset({FIRST + 2})
    assert moves().moved(frozenset(), gone, gone).num_bytes == 40 + 200


def test_workers_that_join_pull_all_dense_keys():
    """Keys 0 and 3 (25 of 50 bytes) are on server 0, which two workers pull from."""
    assert moves().pull_s((0, 1), frozenset()) == 2 * 25 / 10


@given(st.integers(2, 6), st.data())
def test_what_comes_back_moves_as_much_as_what_left(servers, data):
    absent = st.frozensets(st.integers(FIRST, FIRST + servers - 1), max_size=servers - 1)
    before, after = data.draw(absent), data.draw(absent)
    sizes = data.draw(st.lists(st.integers(1, 99), max_size=12))
    own = moves(servers, tuple(sizes), ((data.draw(st.integers(1, 50)), 7),))
    there, back = (own.moved(*pair, frozenset()) for pair in ((before, after), (after, before)))
    assert there.num_bytes == back.num_bytes <= sum(sizes) + own.tables[0][0] * 7
    assert there.seconds == pytest.approx(back.seconds) if there.num_bytes else back.seconds == 0
    assert own.moved(before, before, frozenset()).num_bytes == 0
