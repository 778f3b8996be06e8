from __future__ import annotations

import pytest

from simcluster.cluster import Cluster, ClusterSpec, HostSpec, Wiring, load_device
from simcluster.document import Document, json_schema, validate, validate_data
from simcluster.errors import ScenarioError


def cluster(text: str) -> Cluster:
    return validate(Document.parse(text, "x.yaml"), ClusterSpec).build()


def refused(text: str) -> str:
    with pytest.raises(ScenarioError) as error:
        cluster(text)
    return str(error.value)


def test_a_host_of_the_catalog():
    built = cluster("{use: dgx-h100, hosts: 32}")
    assert built.num_devices == 256
    assert built.host.name == "dgx-h100"
    assert built.host.device.name == "h100-sxm"
    assert built.host.fabric.wiring is Wiring.SWITCH


def test_single_figures_can_be_overridden():
    built = cluster("host: {use: dgx-h100, fabric: {bandwidth: 200 GB/s}, devices: 4}\nhosts: 1")
    assert built.host.fabric.link.bandwidth == 200e9
    assert built.host.fabric.link.efficiency == 0.824
    assert built.host.num_devices == 4


@pytest.mark.parametrize("device", ["{use: h100-sxm, memory: 96 GB}", "{memory: 96 GB}"])
def test_a_figure_of_the_device_of_a_host_can_be_overridden(device):
    built = cluster(f"host: {{use: dgx-h100, device: {device}}}\nhosts: 1")
    assert built.host.device.memory == 96 * 10**9
    assert built.host.device.peak == load_device("h100-sxm").peak
    assert built.host.device.name == "h100-sxm"


@pytest.mark.parametrize(
    ("host", "device", "gigabytes"),
    [
        ("dgx-a100", "a100-sxm-80", 300),
        ("dgx-a100", "a800-sxm-80", 200),
        ("dgx-h100", "h800-sxm", 200),
        ("dgx-h100", "b200-sxm", 900),
        ("atlas-800t-a2", "ascend-910b-280t", 28),
    ],
)
def test_a_device_brings_its_links_into_the_host(host, device, gigabytes):
    link = cluster(f"host: {{use: {host}, device: {device}}}\nhosts: 1").host.fabric.link
    assert link.bandwidth == pytest.approx(gigabytes * 1e9)


def test_another_device_can_be_put_into_a_host():
    assert cluster("host: {use: dgx-h100, device: a100-sxm-80}\nhosts: 1").host.device.name == "a100-sxm-80"


def test_an_overridden_figure_is_no_longer_an_assumption():
    plain = {entry.name for entry in cluster("{use: dgx-h100, hosts: 1}").assumptions}
    text = "host: {use: dgx-h100, device: {dispatch: 0 s}}\nhosts: 1"
    assert plain - {entry.name for entry in cluster(text).assumptions} == {"h100-sxm.dispatch"}


def test_assumptions_read_as_a_file_would_write_them():
    found = {entry.name: entry for entry in cluster("{use: atlas-800t-a2, hosts: 1}").assumptions}
    assert found["atlas-800t-a2.network.latency"].value == "1.5 us"
    assert found["ascend-910b-313t.streaming.copy"].value == "[[1 MB, 0.8]]"
    assert found["atlas-800t-a2.collectives.default.hccl"].value.startswith("{base: 10 us, host_hop: 0.5 us")
    assert "msmodeling" in found["atlas-800t-a2.network.latency"].source


def test_a_host_can_be_written_inline():
    written = HostSpec.sourced("dgx-a100").model_dump(mode="json", exclude={"use"})
    del written["device"]["use"]
    written["title"], written["device"]["title"] = "My server", "My device"
    built = validate_data({"host": written, "hosts": 2}, ClusterSpec).build()
    assert (built.host.name, built.host.device.name) == ("My server", "My device")
    assert (
        built.host.fabric == validate_data({"use": "dgx-a100", "hosts": 2}, ClusterSpec).build().host.fabric
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{use: dgx-h10, hosts: 2}", "x.yaml:1:7: unknown host 'dgx-h10'; did you mean 'dgx-h100'?"),
        ("host: dgx-h10\nhosts: 2", "x.yaml:1:7: unknown host 'dgx-h10'; did you mean 'dgx-h100'?"),
        ("host: {use: dgx-h100, device: h100}\nhosts: 2", "unknown device 'h100'; did you mean 'h100-sxm'?"),
        ("{use: dgx-h100, hosts: 0}", "0 is too small; write an integer of at least 1"),
        ("use: dgx-h100", "'hosts' is missing"),
        ("hosts: 2", "name a host with 'use: dgx-h100', or write it under 'host'"),
        ("use: dgx-h100\nhost: cpu-server\nhosts: 2", "one of the two"),
        ("{use: dgx-h100, hosts: 2, changes: [{link: a}]}", "this changes nothing"),
        ("{use: dgx-h100, hosts: 2, nics: 4}", "unknown key 'nics'"),
        ("host: {use: dgx-h100, memory: 5}\nhosts: 2", "5 has no unit; write for example '64 GiB'"),
        (
            "host: {use: dgx-h100, network: {nics: 12}}\nhosts: 2",
            "12 cards do not spread evenly over 8 devices",
        ),
        ("host: {use: dgx-h100, fabric: {efficiency: 1.5}}\nhosts: 2", "1.5 is too large"),
        ("host: {use: dgx-1v, devices: 6}\nhosts: 2", "6 devices cannot be divided into islands of 4"),
        (
            "host: {use: dgx-h100, devices: 12}\nhosts: 2",
            "x.yaml:1:32: processors.numa_of_device says what 8 of 12 devices are near to; write it for all",
        ),
        (
            "host: {use: dgx-h100, device: h100-pcie}\nhosts: 2",
            "'bandwidth' is missing, and the device has no",
        ),
        ("host: {use: dgx-1v, fabric: {links: null}}\nhosts: 2", "write 'links' for a partial mesh"),
        ("host: {use: dgx-2, fabric: {links: [[2, 1]]}}\nhosts: 2", "write 'links' for a partial mesh"),
        ("host: {use: dgx-2, network: {by_hosts: [[4, 1], [4, 0.5]]}}\nhosts: 2", "4 stands behind 4"),
        ("host: {use: dgx-2, network: {by_hosts: [[4, 1.5]]}}\nhosts: 2", "1.5 is too large"),
        ("host: {use: l40s-8, island: {by_ranks: [[2, 1.0]]}}\nhosts: 2", "write it under fabric"),
        ("host: {use: dgx-1v, fabric: {links: [[2, 1], [2, 3]]}}\nhosts: 2", "start with 2 ranks and rise"),
        ("host: {use: atlas-800, island: {latency: 2 us}}\nhosts: 2", "longer than that of fabric"),
        ("host: {use: dgx-h100, collectives: {default: {}}}\nhosts: 2", None),
        ("host: {use: dgx-h100, collectives: {ring: {}}}\nhosts: 2", "give at least one protocol"),
        (
            "host: {use: dgx-h100, device: {streaming: {copy: [[2 MB, 0.5], [1 MB, 0.4]]}}}\nhosts: 2",
            "rising sizes",
        ),
        ("host: {use: dgx-h100, device: {peak: {int5: 1 TFLOP/s}}}\nhosts: 2", "int5"),
    ],
)
def test_mistakes_are_named_where_they_stand(text, message):
    if message is None:
        assert cluster(text)  # an empty change changes nothing
    else:
        assert message in refused(text)


def test_more_devices_than_their_file_places_spread_evenly_if_told_so():
    text = "host: {use: dgx-h100, devices: 12, processors: {numa_of_device: null}}\nhosts: 1"
    host = cluster(text).host
    assert [host.numa_of(device) for device in range(12)] == [0] * 6 + [1] * 6
    assert "8 of 12 devices" in refused(text.replace("numa_of_device: null", "numa_nodes: 4"))


def test_a_device_without_its_streaming_curves_is_incomplete():
    written = HostSpec.sourced("dgx-a100").model_dump(mode="json")
    del written["device"]["use"], written["use"], written["device"]["streaming"]["copy"]
    with pytest.raises(ScenarioError, match="'copy' is missing"):
        validate_data({"host": written, "hosts": 1}, ClusterSpec)


def test_the_schema_offers_the_catalog():
    schema = json_schema(ClusterSpec)
    text = str(schema)
    assert "'dgx-h100'" in text and "'h100-sxm'" in text
    assert "changes" in schema["properties"]
    assert schema["$defs"]["ChangeSpec"]["properties"].keys() == {
        "device",
        "host",
        "devices",
        "hosts",
        "compute",
        "memory_bandwidth",
        "power",
    }
