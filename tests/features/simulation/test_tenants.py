"""Several scenarios on one cluster: closed forms, and folded equals unfolded for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.program import InstructionKind
from simcluster.result import Result
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.compose.build import run_tenants
from simcluster.simulation.compose.tenants import simulate_tenants
from tests.support.tenants import TRUNK_SHARE, cluster, shared, tenant_scenario


def summary(which, **options):
    return simulate(which, **options).documents["summary"]


def test_who_shares_no_link_is_not_slowed_at_all():
    """Hosts of one leaf need no trunk: the same to the nanosecond, whoever else is there and how long."""
    mine, theirs = tenant_scenario({"data": 16}, steps=2), tenant_scenario({"data": 16}, steps=3, batch=3)
    found = summary(shared(mine, "0-1", [(theirs, "2-3"), (mine, [4, 5])]))
    assert [each["slowdown"] for each in found["tenants"]] == [1.0, 1.0, 1.0]
    assert found["slowdown"] == 1.0
    assert [each["shared_links"] for each in found["tenants"]] == [{}, {}, {}]
    alone = summary(shared(mine, "0-1", []))
    assert found["step_time_s"] == alone["step_time_s"] == found["tenants"][0]["step_time_alone_s"]


def test_two_equal_all_reduces_over_one_trunk_take_the_bytes_over_it_longer():
    """A ring sends 2 (n - 1) / n of its bytes over the trunk; of two rings, each gets half of its rate."""
    mine = tenant_scenario({"data": 16})
    run = simulate(shared(mine, [0, 2], [(mine, [1, 3])]))
    alone = simulate(shared(mine, [0, 2], []))
    built = build_scenario(shared(mine, [0, 2], []))
    card, nics = built.cluster.host.network.link.rate, built.cluster.host.network.nics
    trunk = 2 * nics * card / TRUNK_SHARE
    latency = {
        each.num_bytes: built.fabric.transfer(0, each).latency_ns
        for code in built.program.codes
        for each in code.instructions
        if each.action is InstructionKind.COLLECTIVE
    }

    def reductions(which):
        rows = which.transfers.where(which.transfers["class"] == 0)
        return rows["bytes"], rows["end"] - rows["start"], rows["start"]

    sizes, took, starts = reductions(run)
    same, before, starts_alone = reductions(alone)
    assert np.array_equal(sizes, same)
    assert len(sizes) and starts[0] == starts_alone[0]
    late = np.array([latency[size] for size in sizes.tolist()])
    assert took == pytest.approx(late + 2 * 15 / 16 * sizes / (trunk / 2) * 1e9, abs=2)
    assert (took > 1.1 * before).all()
    found = run.documents["summary"]
    assert found["tenants"][0]["step_time_s"] == found["tenants"][1]["step_time_s"] == found["step_time_s"]
    before_s = alone.documents["summary"]["step_time_s"]
    assert found["slowdown"] == pytest.approx(found["step_time_s"] / before_s, rel=1e-12)
    assert found["slowdown"] > 1
    links = found["tenants"][0]["shared_links"]["tenant 0"]
    assert links == {"links": 4, "first": "leaf.0.up"}
    waits, waits_alone = (found["tenants"][0][name] for name in ("waits_s", "waits_alone_s"))
    slower = found["step_time_s"] - before_s
    assert sum(waits.values()) - sum(waits_alone.values()) == pytest.approx(slower, rel=1e-9)
    assert waits["data"] - waits_alone["data"] > 0.9 * slower


def test_a_job_has_its_tenants_beside_it_in_every_state():
    """A slow device makes the step what the same change of the cluster makes it, tenants included."""
    mine = tenant_scenario({"data": 16})
    written = shared(mine, [0, 2], [(mine, [1, 3])]).spec.model_dump(mode="json", exclude_unset=True)
    slow = {"at": "301 s", "device": 3, "effect": "slow", "factor": 0.2, "lasts": "100 h"}
    checkpoint = {"every": 10_000_000, "save": "0 s", "load": "0 s"}
    job = {"steps": 1_000_000, "failures": {"events": [slow]}, "recovery": {"checkpoint": checkpoint}}
    run = simulate(Scenario.of(written | {"job": job})).documents["job"]
    written["cluster"]["changes"] = [{"device": 3, "compute": 0.2}]
    changed = simulate(Scenario.of(written)).documents["summary"]
    assert run["step_times"][-1][2] == pytest.approx(changed["step_time_s"], abs=1e-9)
    assert changed["step_time_s"] > changed["tenants"][0]["step_time_alone_s"]


def test_who_is_through_begins_again_until_all_are():
    """Beside a tenant of many steps, every step of it meets the short one: not only as many as that has."""
    short, long = tenant_scenario({"data": 16}), tenant_scenario({"data": 16}, steps=6)
    once = summary(shared(short, [0, 2], [(short, [1, 3])]))["tenants"]
    often = summary(shared(short, [0, 2], [(long, [1, 3])]))["tenants"]
    assert often[0] | {"shared_links": 0, "name": ""} == once[0] | {"shared_links": 0, "name": ""}
    assert once[1]["slowdown"] > 1
    # Six steps in a row hide some of what one step at a time shows: alone as well as here.
    assert often[1]["slowdown"] > 1 + 0.8 * (once[1]["slowdown"] - 1)


def test_the_others_are_simulated_to_the_last_step_of_all():
    built = build_scenario(
        shared(tenant_scenario({"data": 16}), [0, 2], [(tenant_scenario({"data": 16}, steps=5), [1, 3])])
    )
    first, second = simulate_tenants(built)
    assert second.timing.end > 4 * first.timing.end
    assert first.timing.num_flows == second.timing.num_flows
    # As many rounds of the first as fit, all on the network that both have.
    rounds = second.timing.end // first.timing.end
    alone = first.timing_alone.num_flows, second.timing_alone.num_flows
    assert first.timing.num_flows >= (rounds - 1) * alone[0] + alone[1]


MESHES = [{"data": 16}, {"pipeline": 2, "data": 8}, {"data": 2, "tensor": 8}, {"pipeline": 2, "tensor": 8}]


@pytest.mark.thorough
@settings(max_examples=6)
@given(data=st.data())
def test_folded_is_unfolded_with_tenants(data):
    """Random plans on random hosts, some slow parts: every tenant takes the same time to the nanosecond."""
    order = data.draw(st.permutations(range(6)))
    chosen = [
        tenant_scenario(
            data.draw(st.sampled_from(MESHES)),
            steps=data.draw(st.integers(1, 2)),
            batch=data.draw(st.integers(1, 3)),
            ring=data.draw(st.booleans()),
        )
        for _ in range(3)
    ]
    changes = [
        {"device": 8 * order[2] + 3, "compute": 0.7},
        {"link": "leaf.1.up", "bandwidth": 0.5, "latency": "+3 us"},
        {"link": f"host.{order[0]}.nic.2.out", "bandwidth": 0.3, "from": "100 us", "until": "2 ms"},
        {"link": "leaf.*.down", "background": "20 GB/s"},
    ]
    slow = data.draw(st.lists(st.sampled_from(changes), unique_by=str))
    places = [list(order[at : at + 2]) for at in (0, 2, 4)]
    tenants = list(zip(chosen[1:], places[1:], strict=True))
    which = shared(chosen[0], places[0], tenants, hosts=6, changes=slow)
    folded, unfolded = simulate(which), simulate(which, unfold=True)
    exact = ("name", "hosts", "step_time_s", "step_time_alone_s", "slowdown", "shared_links")
    for ours, theirs in zip(
        folded.documents["summary"]["tenants"], unfolded.documents["summary"]["tenants"], strict=True
    ):
        assert {name: ours[name] for name in exact} == {name: theirs[name] for name in exact}
        assert theirs["num_classes"] == theirs["num_ranks"] >= ours["num_classes"]
        assert ours["waits_s"] == pytest.approx(theirs["waits_s"], rel=1e-9)
    for rank, index in enumerate(folded.ranks["class"].tolist()):
        mine = unfolded.spans.where(unfolded.spans["class"] == rank)
        theirs = folded.spans.where(folded.spans["class"] == index)
        for column in ("start", "end", "arrival", "micro_batch"):
            assert np.array_equal(mine[column], theirs[column]), (rank, column)


def test_a_slow_device_of_a_tenant_is_its_own_affair():
    """Changes name devices of the cluster: host 2 is the tenant's, so the first scenario does not notice."""
    mine = tenant_scenario({"data": 16})
    slow = [{"device": 17, "compute": 0.1, "memory_bandwidth": 0.1}]
    found = summary(shared(mine, "0-1", [(mine, "2-3")], changes=slow))["tenants"]
    first, second = (each["step_time_alone_s"] for each in found)
    assert first == summary(shared(mine, "0-1", []))["step_time_s"]
    assert second > 1.05 * first
    assert [each["num_classes"] for each in found] == [1, 2]


def test_the_order_of_hosts_is_the_order_of_ranks():
    """Two stages that lie leaf by leaf, or across: other links, another time."""
    mine = tenant_scenario({"pipeline": 2, "data": 16})
    near = summary(shared(mine, [0, 1, 2, 3], []))["step_time_s"]
    far = summary(shared(mine, [0, 2, 1, 3], []))["step_time_s"]
    assert far > near


def test_own_hosts_alone_are_a_part_of_the_cluster():
    """The first hosts of a large cluster are a small cluster."""
    mine = tenant_scenario({"data": 16})
    part = simulate(shared(mine, "0-1", []))
    whole = simulate(Scenario.of({"simcluster": 1, "name": "first", "cluster": cluster(2), **mine}))
    assert part.documents["summary"]["step_time_s"] == whole.documents["summary"]["step_time_s"]
    assert part.documents["topology"]["of_hosts"] == 8
    assert "of_hosts" not in whole.documents["topology"]


def test_values_are_those_of_the_scenario_itself():
    found = verify(shared(tenant_scenario({"data": 16}), [0, 2], [(tenant_scenario({"data": 16}), [1, 3])]))
    assert found.agrees
    assert ("tenants", "1", "0") in found.changes


def test_who_would_begin_again_too_often_is_refused(monkeypatch):
    monkeypatch.setattr("simcluster.simulation.compose.tenants.MOST_ENTRIES", 100)
    with pytest.raises(PlanError, match="steps of 'first' would be run 9 times beside 'tenant 0'"):
        simulate(
            shared(tenant_scenario({"data": 16}), "0-1", [(tenant_scenario({"data": 16}, steps=9), "2-3")])
        )


def test_every_report_says_how_much_slower_who_is():
    run = simulate(shared(tenant_scenario({"data": 16}), [0, 2], [(tenant_scenario({"data": 16}), [1, 3])]))
    result = Result(run)
    slower = f"{result.slowdown:.3f} x"
    assert slower in str(result) and slower in result._repr_html_()
    assert "tenant 0" in str(result) and "tenant 0" in result._repr_html_()
    assert "2 of 8 x dgx-h100" in str(result)
    assert '"slowdown"' in result.to_json()


def test_programs_on_other_links_do_not_run_together():
    one, other = (build_scenario(shared(tenant_scenario({"data": 16}), "0-1", [])) for _ in range(2))
    with pytest.raises(ValueError, match="common links"):
        run_tenants([one, other])
