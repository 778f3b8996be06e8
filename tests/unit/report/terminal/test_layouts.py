import re

import pytest

from simcluster.report import layouts_text
from simcluster.report.terminal.layouts import name_ranges


@pytest.fixture
def document(run):
    return run.documents["layouts"]


def test_every_operator_in_order_with_strategy_source_and_layouts(document):
    text = layouts_text(document, width=120)
    at = 0
    for block in document:
        at = text.index(f"block {block['block']}, ", at)
        for node in block["nodes"]:
            at = text.index(f"\n    {node['name']}  {node['kind']}", at) + 1
            line = text[at : text.index("\n", at)]
            if "strategy" in node:
                assert node["strategy"] in line
                assert node["source"] in line
            for _, layout in node["outputs"]:
                assert layout in text[at:]


def test_movements_say_what_they_cost_and_why_they_are_there(document):
    text = layouts_text(document, width=120)
    flat = " ".join(text.split())
    for block in document:
        for node in block["nodes"]:
            if "why" in node:
                assert node["why"] in flat
    assert re.search(
        r"\n    attention\.norm\.all_gather  all_gather over tensor  [\d.]+ [kM]B in [\d.]+ us\n", text
    )


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("colour", [True, False])
def test_width_and_colour(document, width, colour):
    text = layouts_text(document, width=width, colour=colour)
    assert ("\x1b" in text) == colour
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= width for line in text.split("\n"))


def test_a_pattern_keeps_operators_by_their_full_name(document):
    text = layouts_text(document, "layers.{2,3,7}.mlp.{up,down}", width=120)
    assert text.startswith("layers.2 .. layers.3, layers.7  block layer, 3 instances")
    assert re.findall(r"^    (\S+)", text, re.M) == ["mlp.up", "mlp.down"]
    assert "embedding" not in text


def test_the_pattern_may_reach_movements_and_other_phases(document):
    names = re.findall(r"^    (\S+)", layouts_text(document, "*reduce_scatter", width=120), re.M)
    assert names and all(name.endswith("reduce_scatter") for name in names)


def test_a_pattern_that_fits_nothing_says_so(document):
    assert layouts_text(document, "layers.99.*") == "no operator is called 'layers.99.*'"
    assert layouts_text(document, "mlp") == "no operator is called 'mlp'"


def test_names_with_runs_of_numbers_are_ranges():
    assert name_ranges(["embedding"]) == "embedding"
    assert name_ranges(["a.0", "a.1", "a.2", "a.4", "b.5", "b.6"]) == "a.0 .. a.2, a.4, b.5 .. b.6"
    assert name_ranges([]) == ""


def test_what_runs_or_travels_together_is_said(document):
    text = layouts_text(document, width=120)
    joined = [node for block in document for node in block["nodes"] if node["kernel"]]
    assert joined
    for node in joined:
        assert f"together with {node['kernel']}" in " ".join(text.split())
