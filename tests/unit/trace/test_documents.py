"""Documents that are made when they are first read."""

from __future__ import annotations

import pickle

import pytest

from simcluster.trace import Documents


def test_each_is_made_once_when_it_is_read():
    made = []

    def making():
        made.append(1)
        return {"a": 1}

    documents = Documents({"known": 0}, {"later": making})
    assert "later" in documents and len(documents) == 2
    assert list(documents) == ["known", "later"]
    assert not made
    assert documents["later"] is documents["later"]
    assert made == [1]
    assert dict(documents) == {"known": 0, "later": {"a": 1}}
    assert documents.get("nothing") is None
    with pytest.raises(KeyError):
        documents["nothing"]


def test_more_of_them_leaves_the_others_for_later():
    made = []
    first = Documents({"known": 0}, {"later": lambda: made.append("later") or 1})
    both = Documents.more(first, {"last": lambda: made.append("last") or 2})
    assert list(both) == ["known", "later", "last"]
    assert "last" not in first
    assert both["last"] == 2
    assert made == ["last"]
    assert both["later"] == first["later"] == 1
    assert made == ["last", "later"]


def test_copies_hold_all():
    documents = Documents({"known": 0}, {"later": lambda: 1})
    assert pickle.loads(pickle.dumps(documents)) == {"known": 0, "later": 1}
