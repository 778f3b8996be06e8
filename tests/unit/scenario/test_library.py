"""Protocols that a scenario writes for a host are those of algorithms and operations that there are."""

from __future__ import annotations

import pytest

from simcluster.cluster import host_names
from simcluster.cluster.spec.host_spec import HostSpec
from simcluster.collectives import Operation, all_algorithms
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.scenario import Scenario
from simcluster.scenario.library import DEFAULT
from tests.support.scenario_texts import SMALL, but

SLOW = "{slow: {base: 1 ms, host_hop: 1 us, network_hop: 5 us, host_share: 0.5, network_share: 0.5}}"


def written(*names: str) -> str:
    keys = ", ".join(f"{name}: {SLOW}" for name in names)
    host = f"host: {{use: cpu-server, collectives: {{{keys}}}}}"
    return but("use: cpu-server", host)


def test_misspelt_keys_are_refused_with_the_nearest_name(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(written("rign", "all_reduce", "default", "all_gahter"))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    first, second = caught.value.problems
    column = file.read_text().splitlines()[3].index("rign") + 1
    assert first.where == f"{file}:4:{column}"
    assert first.message == "'rign' is neither an algorithm nor an operation; did you mean 'ring'?"
    assert second.message.endswith("; did you mean 'all_gather'?")


def test_a_group_is_named(tmp_path):
    host = f"{{use: cpu-server, collectives: {{tre: {SLOW}}}}}"
    groups = f"groups: [{{use: dgx-h100, hosts: 1}}, {{host: {host}, hosts: 4}}]"
    file = tmp_path / "wrong.yaml"
    file.write_text(but("use: cpu-server, hosts: 4", groups))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file)
    told = "'tre' is neither an algorithm nor an operation; did you mean 'tree'?"
    assert any(each.message == told and ":4:" in each.where for each in caught.value.problems)


def test_what_there_is_may_be_written(tmp_path):
    file = tmp_path / "right.yaml"
    file.write_text(written(DEFAULT, *all_algorithms(), *Operation))
    assert set(Scenario.load(file).cluster.host.protocols) == {DEFAULT, *all_algorithms(), *Operation}
    file.write_text(SMALL)
    assert Scenario.load(file).name == "small"


@pytest.mark.parametrize("name", host_names())
def test_shipped_hosts_write_nothing_else(name):
    found = validate_data({"use": name}, HostSpec).collectives
    assert set(found) <= {DEFAULT, *all_algorithms(), *Operation}
