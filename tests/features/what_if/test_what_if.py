"""What-if: the same plan on better and worse hardware, sorted, and the same as planning it there."""

from __future__ import annotations

import json

import pytest

import simcluster
from simcluster.cluster import ClusterScale, HardwareFigure, figures_of
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, scaled_step, simulate
from simcluster.what_if import what_if, what_if_document, what_if_page, what_if_text
from tests.support.networks import EXAMPLES, cluster
from tests.support.tenants import shared, tenant_scenario

SMALL = {
    "simcluster": 1,
    "name": "small",
    "cluster": {"use": "dgx-h100", "hosts": 2},
    "model": {"layers": 4, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32_000},
    "training": {"global_batch": 32, "micro_batch": 1, "seq_len": 1024, "precision": "bf16"},
    "parallel": {"mesh": {"pipeline": 2, "data": 2, "tensor": 4}},
}


def scenario(**parts):
    return Scenario.of(SMALL | parts)


@pytest.fixture(scope="module")
def answer():
    return what_if(build_scenario(scenario()))


def test_better_figures_never_cost_and_worse_never_gain(answer):
    assert {effect.figure for effect in answer.effects} >= {
        HardwareFigure.COMPUTE,
        HardwareFigure.MEMORY_BANDWIDTH,
        HardwareFigure.HOST,
        HardwareFigure.NETWORK,
        HardwareFigure.LATENCY,
        HardwareFigure.LAUNCH,
    }
    for effect in answer.effects:
        assert effect.better <= answer.present <= effect.worse, effect.figure
    swings = [effect.swing for effect in answer.effects]
    assert swings == sorted(swings, reverse=True)
    assert answer.effects[0].figure is HardwareFigure.COMPUTE


def test_nothing_better_is_the_run_as_it_is():
    which = scenario()
    built, step = build_scenario(which), simulate(which).documents["summary"]["step_time_s"]
    for figure in figures_of(built.cluster):
        assert scaled_step(built, ClusterScale(figure, 1.0)) == step


def test_a_larger_share_gains_more(answer):
    more = what_if(build_scenario(scenario()), 0.5)
    gains = {effect.figure: effect.gain for effect in answer.effects}
    for effect in more.effects:
        assert effect.gain <= gains[effect.figure]
    with pytest.raises(ValueError, match="no better"):
        what_if(build_scenario(scenario()), 0.0)


def test_it_is_the_plan_on_a_cluster_written_so():
    """A faster network and faster devices, as a document would write them."""
    built = build_scenario(scenario())
    card = scenario().cluster.host.network.link
    faster = {"use": "dgx-h100", "network": {"bandwidth": f"{card.bandwidth * 2} B/s"}}
    written = scenario(cluster={"host": faster, "hosts": 2})
    ours = scaled_step(built, ClusterScale(HardwareFigure.NETWORK, 2.0))
    assert ours == simulate(written).documents["summary"]["step_time_s"]
    twice = [{"devices": "all", "compute": 2.0}]
    changed = scenario(cluster={"use": "dgx-h100", "hosts": 2, "changes": twice})
    ours = scaled_step(built, ClusterScale(HardwareFigure.COMPUTE, 2.0))
    assert ours == simulate(changed).documents["summary"]["step_time_s"]


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_all_links_of_a_network_are_scaled(kind):
    before = cluster(EXAMPLES[kind])
    scaled = ClusterScale(HardwareFigure.NETWORK, 3.0).of(before)
    later = ClusterScale(HardwareFigure.LATENCY, 0.5).of(before)
    families = [which.topology.families for which in (before, scaled, later)]
    first = before.topology.network.site.first_link
    for ours, faster, slower in zip(*families, strict=True):
        card = ours.source == "host.network" or ours.first >= first
        assert faster.rate == pytest.approx(ours.rate * (3 if card else 1)), ours.pattern
        assert slower.latency == pytest.approx(2 * ours.latency), ours.pattern


def test_tenants_share_the_scaled_links():
    which = shared(tenant_scenario({"data": 16}), "0,2", [(tenant_scenario({"data": 16}), "1,3")], hosts=4)
    built = build_scenario(which)
    scale = ClusterScale(HardwareFigure.NETWORK, 2.0)
    own, others = (scale.of(each.cluster) for each in (built, *built.tenants))
    assert own.topology is others.topology
    step = simulate(which).documents["summary"]["step_time_s"]
    assert scaled_step(built, ClusterScale(HardwareFigure.NETWORK, 1.0)) == step
    assert scaled_step(built, scale) < step


def test_reports(answer, tmp_path):
    text, page, document = what_if_text(answer), what_if_page(answer), what_if_document(answer)
    assert "compute rate" in text and "The step takes" in text
    assert page.startswith("<!doctype html>") and "<svg" in page
    assert json.loads(json.dumps(document)) == document
    assert document["factors"][0]["factor"] == "compute"
    given = simcluster.whatif(scenario())
    assert given.document == document
    assert str(given) == text
    assert "<svg" in given._repr_html_()
    given.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page


def test_answers_of_inference():
    parts = dict(SMALL)
    del parts["training"]
    parts |= {
        "cluster": {"use": "dgx-h100", "hosts": 1},
        "inference": {"batch": 8, "prompt": 256, "tokens": 16},
        "parallel": {"mesh": {"tensor": 8}},
    }
    which = Scenario.of(parts)
    answer = what_if(build_scenario(which))
    assert answer.what == "answer"
    assert answer.present == simulate(which).documents["summary"]["latency_s"]


def test_wrong_files():
    with pytest.raises(ScenarioError):
        simcluster.whatif("no-such-file.yaml")
