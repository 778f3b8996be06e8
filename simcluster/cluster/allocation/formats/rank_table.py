"""HCCL's rank table, versions 1.0 and 1.2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import ValidationError

from simcluster.cluster.allocation.allocated_site import AllocatedSite
from simcluster.cluster.allocation.allocation import AllocatedHost, Allocation, MapBy
from simcluster.cluster.allocation.allocation_format import AllocationFormat
from simcluster.cluster.allocation.rank_table_spec import RankTableSpec, json_path
from simcluster.document import Document, validate, validate_data
from simcluster.errors import PlanError, Problem, ScenarioError


class RankTable(AllocationFormat):
    """A JSON file of servers, their devices, and the rank of each device; Ascend only."""

    kind: ClassVar[str] = "rank_table"
    title: ClassVar[str] = "rank table"
    deals: ClassVar[bool] = False

    def read(self, text: str, name: str, site: AllocatedSite, by: MapBy) -> Allocation:
        """See ``AllocationFormat.read``; places in errors are followed by JSON paths."""
        if site.kind != "ascend":
            raise ScenarioError(
                f"a rank table is for Ascend devices, not for {site.device}",
                path="cluster.rank_table",
                hint="name the hosts in a hostfile",
            )
        try:
            table = RankTableSpec.model_validate(json.loads(text, object_pairs_hook=_unique))
        except (ValueError, RecursionError) as error:
            self._refuse(text, name, error)
        problems = [*_contradictions(table, site)]
        if problems:
            raise _located(Document.parse(text, name), problems)
        return _allocation(table, site)

    def _refuse(self, text: str, name: str, error: ValueError | RecursionError) -> None:
        """ScenarioError with the place of every mistake: the text is read once more for these."""
        if isinstance(error, json.JSONDecodeError):
            where = f"{name}:{error.lineno}:{error.colno}"
            raise ScenarioError(Problem(f"this is not JSON: {error.msg}", where=where)) from None
        document = Document.parse(text, name)
        if not isinstance(error, ValidationError):
            raise ScenarioError(Problem(f"this is not a rank table: {error}", where=name)) from None
        try:
            validate(document, RankTableSpec)
        except ScenarioError as refused:
            raise ScenarioError(*(_with_json_path(problem) for problem in refused.problems)) from None

    def write(self, allocation: Allocation, site: AllocatedSite, title: str) -> str:
        """See ``AllocationFormat.write``; names of hosts are kept, addresses of devices made up where
        there are none.

        Version 1.2, with super-pods, for hosts that have them.
        """
        if site.kind != "ascend":
            raise PlanError(
                f"a rank table is for Ascend devices, not for {site.device}", path="job.launch.method"
            )
        table = _table(allocation, site)
        try:
            problems = [*_contradictions(validate_data(table, RankTableSpec), site)]
        except ScenarioError as refused:
            problems = [*refused.problems]
        if problems:
            first = problems[0]
            place = json_path(first.path)
            raise PlanError(
                f"no rank table may say where these ranks are: {place}: {first.message}", path="cluster"
            )
        return _text(table)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose keys stands twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [key for key, _ in pairs]
        raise ValueError(
            f"'{next(key for key in names if names.count(key) > 1)}' is given twice in one object"
        )
    return made


def _with_json_path(problem: Problem) -> Problem:
    return replace(
        problem, where=f"{problem.where} {json_path(problem.path)}" if problem.path else problem.where
    )


def _located(document: Document, problems: list[Problem]) -> ScenarioError:
    error = document.located(ScenarioError(*problems))
    return ScenarioError(*(_with_json_path(problem) for problem in error.problems))


def _contradictions(table: RankTableSpec, site: AllocatedSite) -> Iterator[Problem]:
    """What does not go with the hardware, and the rules of its devices."""
    servers = table.server_list
    if site.num_hosts is not None and site.num_hosts != len(servers):
        yield Problem(f"{len(servers)} servers, but cluster.hosts is {site.num_hosts}", "server_list")
    if table.super_pod_list is not None and not site.hosts_per_pod:
        yield Problem(f"{site.host} has no super-pods", "super_pod_list", "name a host that has: cluster.use")
    for at, pod in enumerate(table.super_pod_list or ()):
        if (count := len(pod.server_list)) > site.hosts_per_pod > 0:
            message = f"{count} servers, but a super-pod of {site.host} has {site.hosts_per_pod}"
            yield Problem(message, f"super_pod_list.{at}.server_list")
    for at, server in enumerate(servers):
        path = f"server_list.{at}.device"
        for number, device in enumerate(server.device):
            if int(device.device_id) >= site.devices_per_host:
                message = f"there is no device {device.device_id}; {site.host} has {site.devices_per_host}"
                yield Problem(message, f"{path}.{number}.device_id")
            if device.device_ip is None and (site.is_910a or len(servers) > 1):
                why = "the 910A needs it" if site.is_910a else "several servers need it"
                yield Problem(f"'device_ip' is missing: {why}", f"{path}.{number}.device_ip")
        if site.is_910a:
            yield from _rules_of_910a(
                [int(device.device_id) for device in server.device], path, len(servers[0].device), site
            )


def _rules_of_910a(devices: list[int], path: str, first: int, site: AllocatedSite) -> Iterator[Problem]:
    """Counts that jobs on the 910A may have on a server (HCCL ``constraints.md``)."""
    count, island = len(devices), site.devices_per_island
    if count not in (1, 2, 4, 8):
        yield Problem(f"{count} devices; jobs on the 910A have 1, 2, 4 or 8 of a server", path)
    elif count != first:
        yield Problem(f"{count} devices, but {first} of the first server; all have equally many", path)
    elif 1 < count <= island and len({device // island for device in devices}) > 1:
        groups = " or ".join(f"{at}-{at + island - 1}" for at in range(0, site.devices_per_host, island))
        yield Problem(f"jobs of {count} devices on the 910A stay inside {groups}", path)


def _notes(table: RankTableSpec, site: AllocatedSite) -> Iterator[str]:
    """What is allowed, and advised against."""
    servers = table.server_list
    by_rank = sorted(servers, key=lambda server: min(int(device.rank_id) for device in server.device))
    ids = [server.server_id for server in by_rank]
    if ids != sorted(ids):
        yield "ranks should follow the dictionary order of server ids (rank_table.md); they do not"
    if len({len(server.device) for server in servers}) > 1:
        yield "servers should have equally many devices (constraints.md)"
    if site.is_910a and len(servers) & (len(servers) - 1):
        yield f"{len(servers)} servers: a power of two is best on the 910A (constraints.md)"
    ports = [int(device.device_port or LOW_PORT + 1) for server in servers for device in server.device]
    if min(ports) <= LOW_PORT:
        yield f"device_port {min(ports)}: those up to {LOW_PORT} should be avoided"


LOW_PORT = 1023
"""The last port that is better left to the system."""


def _allocation(table: RankTableSpec, site: AllocatedSite) -> Allocation:
    pods = {
        member.server_id: pod.super_pod_id for pod in table.super_pod_list or () for member in pod.server_list
    }
    hosts = [
        AllocatedHost(
            server.server_id,
            tuple(int(device.rank_id) for device in server.device),
            tuple(int(device.device_id) for device in server.device),
            tuple(device.device_ip or "" for device in server.device),
            pods.get(server.server_id),
        )
        for server in table.server_list
    ]
    alone = bool(site.hosts_per_pod) and table.super_pod_list is None
    notes = [*_notes(table, site)]
    if alone and len(hosts) > 1:
        notes.append("no super_pod_list: servers reach each other by the network only (server mode)")
    return Allocation(tuple(hosts), tuple(notes), apart=alone)


def _table(allocation: Allocation, site: AllocatedSite) -> dict[str, Any]:
    """The rank table as plain data."""
    pods = bool(site.hosts_per_pod)
    places = allocation.places(site.hosts_per_pod)
    names = [host.name for host in allocation.hosts]
    pod_names = [
        (host.pod or f"super-pod-{place // site.hosts_per_pod}") if pods else ""
        for host, place in zip(allocation.hosts, places, strict=True)
    ]
    rows = [number for number, host in enumerate(allocation.hosts) if host.ranks]
    rows.sort(key=lambda number: min(allocation.hosts[number].ranks))
    order = [*dict.fromkeys(pod_names[number] for number in rows)]
    rows.sort(key=lambda number: order.index(pod_names[number]))  # those of a super-pod next to each other
    servers, members = [], dict[str, list[str]]()
    for number in rows:
        host, place = allocation.hosts[number], places[number]
        devices = []
        for rank, device in sorted(zip(host.ranks, host.devices, strict=True)):
            own = {"device_id": str(device), "device_ip": _kept(host, rank) or device_ip(place, device, site)}
            own["rank_id"] = str(rank)
            if pods:
                own["super_device_id"] = str(place % site.hosts_per_pod * site.devices_per_host + device)
            devices.append(own)
        servers.append({"server_id": names[number], "host_nic_ip": "reserve", "device": devices})
        members.setdefault(pod_names[number], []).append(names[number])
    table: dict[str, Any] = {"version": "1.2" if pods else "1.0", "server_count": str(len(servers))}
    table |= {"server_list": servers}
    if pods:
        table["super_pod_list"] = [
            {"super_pod_id": name, "server_list": [{"server_id": server} for server in own]}
            for name, own in members.items()
        ]
    return table | {"status": "completed"}


def _kept(host: AllocatedHost, rank: int) -> str:
    """The address that a file gave to the device of a rank."""
    return host.addresses[host.ranks.index(rank)] if host.addresses else ""


def device_ip(place: int, device: int, site: AllocatedSite) -> str:
    """A made-up address of a device's network card: one subnet for each card of a group of four, as on Atlas
    servers.
    """
    group = min(4, site.devices_per_host)
    number = place * -(-site.devices_per_host // group) + device // group + 6
    return f"192.{device % group + 1 + 4 * (number // 62_500)}.{number // 250 % 250 + 1}.{number % 250 + 1}"


def _text(table: dict[str, Any]) -> str:
    """JSON with a line for every device and every server of a super-pod."""
    lines = ["{"]
    for number, (key, value) in enumerate(table.items()):
        end = "," if number < len(table) - 1 else ""
        if key == "server_list":
            lines += [f'  "{key}": [', *_listed(value, "device"), f"  ]{end}"]
        elif key == "super_pod_list":
            lines += [f'  "{key}": [', *_listed(value, "server_list"), f"  ]{end}"]
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}{end}")
    return "\n".join([*lines, "}", ""])


def _listed(parts: list[dict[str, Any]], inner: str) -> Iterator[str]:
    for number, part in enumerate(parts):
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(part[key])}" for key in part if key != inner)
        yield f'    {{{head}, "{inner}": ['
        rows = [f"      {json.dumps(row)}" for row in part[inner]]
        yield ",\n".join(rows)
        yield "    ]}" + ("," if number < len(parts) - 1 else "")
