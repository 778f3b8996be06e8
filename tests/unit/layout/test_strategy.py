from __future__ import annotations

from simcluster.layout import Layout, Strategy


def test_equal_splits_are_equal_strategies():
    one = Strategy.of({"seq": ["context"], "batch": ["data", "expert"], "hidden": []})
    assert one == Strategy.of({"batch": ("data", "expert"), "seq": ("context",)})
    assert one.splits == (("batch", ("data", "expert")), ("seq", ("context",)))
    assert one != Strategy.of({"batch": ("expert", "data"), "seq": ("context",)})


def test_dims_that_are_not_named_stay_whole():
    strategy = Strategy.of({"heads": ["tensor"]})
    assert strategy.axes("heads") == ("tensor",)
    assert strategy.axes("seq") == ()
    assert strategy.layout(("batch", "heads", "seq")) == Layout(((), ("tensor",), ()))
    assert strategy.layout(()) == Layout(())


def test_it_prints_its_splits():
    assert (
        str(Strategy.of({"heads": ["tensor"], "batch": ["data", "expert"]}))
        == "batch: data+expert, heads: tensor"
    )
    assert str(Strategy()) == "replicated"
