"""What a rank table may say: HCCL's JSON file of servers, devices and ranks, versions 1.0 and 1.2.

Source: MindSpore 2.4 ``rank_table.md``; HCCL ``cluster_info_config/rank_table_config_910.md``, ``_a2.md``,
``_a3.md`` and ``constraints.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from simcluster.document import Refused, Section
from simcluster.errors import Problem

LONGEST_ID = 64
"""Characters of a server's id."""
LAST_PORT = 65535
MOST_DIGITS = 9
"""Of an index or a rank."""


def _digits(text: str) -> str:
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        raise ValueError(f"'{text}' is not a number from 0, as text")
    return text


def _address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IP address") from None
    return text


def _port(text: str) -> str:
    if not 1 <= int(_digits(text)) <= LAST_PORT:
        raise ValueError(f"{text} is not a port; write 1 to {LAST_PORT}")
    return text


Digits = Annotated[str, AfterValidator(_digits)]
"""A number as text."""
Address = Annotated[str, AfterValidator(_address)]
"""An IP address."""
Port = Annotated[str, AfterValidator(_port)]
"""A port as text."""
Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
"""The id of a server or a super-pod."""


class RankDeviceSpec(Section):
    """A device of a server, and its rank."""

    device_id: Digits
    """Its index on the server."""

    device_ip: Address | None = None
    """The address of its network card; may be left out on one server, but for the 910A."""

    device_port: Port | None = None
    """The port that it listens on."""

    rank_id: Digits
    """Its rank."""

    super_device_id: Digits | None = None
    """Its id in the super-pod."""

    backup_device_ip: Address | None = None
    """The card that takes over when its own fails."""

    backup_device_port: Port | None = None
    """The port of that."""

    host_port: Port | None = None
    """The port of its process on the host."""


class RankServerSpec(Section):
    """A server and its devices."""

    server_id: Id
    """Different for every server; usually its address."""

    host_nic_ip: Annotated[str, Field(min_length=1)] | None = None
    """The address of the host's own card; ``reserve`` in most tables."""

    host_ip: Address | None = None
    """The address of the host."""

    device: Annotated[tuple[RankDeviceSpec, ...], Field(min_length=1)]
    """Its devices that run ranks."""


class SuperPodServerSpec(Section):
    """A server of a super-pod."""

    server_id: Id
    """As in ``server_list``."""


class SuperPodSpec(Section):
    """A super-pod, physical or a part of one."""

    super_pod_id: Id
    """Different for every one."""

    server_list: Annotated[tuple[SuperPodServerSpec, ...], Field(min_length=1)]
    """Its servers."""


class RankTableSpec(Section):
    """A whole rank table."""

    version: Literal["1.0", "1.2"]
    """1.2 for super-pods."""

    status: Literal["completed", "initializing"]
    """Only a completed one can be used."""

    server_count: Digits | None = None
    """How many servers; may be left out in 1.2."""

    server_list: Annotated[tuple[RankServerSpec, ...], Field(min_length=1)]
    """The servers."""

    super_pod_list: Annotated[tuple[SuperPodSpec, ...], Field(min_length=1)] | None = None
    """Which servers are joined to super-pods; left out, servers are on their own."""

    @model_validator(mode="before")
    @classmethod
    def _is_no_old_template(cls, written: Any) -> Any:
        if isinstance(written, dict) and "group_list" in written:
            raise Refused(
                "this is a rank table of the old template (group_list), which is kept for compatibility only",
                path="group_list",
                hint="write servers under server_list",
            )
        return written

    @model_validator(mode="after")
    def _obeys_the_rules(self) -> RankTableSpec:
        problems = [*self._form(), *self._repeated(), *self._ranks(), *self._pods()]
        if problems:
            raise Refused(*problems)
        return self

    def _form(self) -> Iterator[Problem]:
        if self.status != "completed":
            yield Problem(
                "a table that is still 'initializing' cannot be used", "status", "status: completed"
            )
        count = len(self.server_list)
        if self.server_count is None and self.version == "1.0":
            yield Problem(f"'server_count' is missing; write \"{count}\"", "server_count")
        elif self.server_count is not None and int(self.server_count) != count:
            yield Problem(f"server_count is {self.server_count}, but there are {count}", "server_count")
        if self.version == "1.2":
            return
        if self.super_pod_list is not None:
            yield Problem("super-pods are of version 1.2", "super_pod_list", 'write "version": "1.2"')
        for path, device in self._devices():
            for key in ("super_device_id", "backup_device_ip", "backup_device_port", "host_port"):
                if getattr(device, key) is not None:
                    yield Problem(f"'{key}' is of version 1.2", f"{path}.{key}", 'write "version": "1.2"')

    def _repeated(self) -> Iterator[Problem]:
        """Ids and addresses that are there twice."""
        yield from _twice("server_id", ((f"server_list.{at}", s) for at, s in enumerate(self.server_list)))
        for at, server in enumerate(self.server_list):
            inner = ((f"server_list.{at}.device.{no}", device) for no, device in enumerate(server.device))
            yield from _twice("device_id", inner)
        yield from _twice("device_ip", self._devices())
        yield from _twice("rank_id", self._devices())

    def _ranks(self) -> Iterator[Problem]:
        """Ranks that are too high, and servers whose ranks lie between those of another."""
        total = sum(len(server.device) for server in self.server_list)
        known: set[int] = set()
        for path, device in self._devices():
            if int(device.rank_id) < total:
                known.add(int(device.rank_id))
            else:
                message = f"rank {device.rank_id} of {total} devices; ranks are 0 to {total - 1}"
                yield Problem(message, f"{path}.rank_id")
        if len(known) < total:  # there are other problems to be told first
            return
        for at, server in enumerate(self.server_list):
            ranks = sorted(int(device.rank_id) for device in server.device)
            if ranks[-1] - ranks[0] >= len(ranks):
                yield Problem(
                    f"the ranks of different servers may not interleave: this one has "
                    f"{', '.join(map(str, ranks))}",
                    f"server_list.{at}.device",
                    "give every server ranks without gaps",
                )

    def _pods(self) -> Iterator[Problem]:
        """Super-pods whose servers are not those of the table, or not next to each other in it."""
        if self.super_pod_list is None:
            return
        pod_of: dict[str, str] = {}
        known = {server.server_id for server in self.server_list}
        yield from _twice(
            "super_pod_id", ((f"super_pod_list.{a}", p) for a, p in enumerate(self.super_pod_list))
        )
        for at, pod in enumerate(self.super_pod_list):
            for number, member in enumerate(pod.server_list):
                path = f"super_pod_list.{at}.server_list.{number}.server_id"
                if member.server_id not in known:
                    yield Problem(f"there is no server '{member.server_id}' in server_list", path)
                elif pod_of.setdefault(member.server_id, pod.super_pod_id) != pod.super_pod_id:
                    other = pod_of[member.server_id]
                    yield Problem(f"'{member.server_id}' is in super-pod '{other}' already", path)
        passed: list[str] = []
        devices: dict[str, set[str]] = {}
        for at, server in enumerate(self.server_list):
            if server.server_id not in pod_of:
                message = f"'{server.server_id}' is in no super-pod of super_pod_list"
                yield Problem(message, f"server_list.{at}.server_id")
                continue
            name = pod_of[server.server_id]
            if name in passed[:-1]:
                message = f"the servers of super-pod '{name}' are not next to each other in server_list"
                yield Problem(message, f"server_list.{at}.server_id")
            if not passed or passed[-1] != name:
                passed.append(name)
            for number, device in enumerate(server.device):
                path = f"server_list.{at}.device.{number}.super_device_id"
                if device.super_device_id is None:
                    yield Problem("'super_device_id' is missing; super_pod_list needs it", path)
                elif device.super_device_id in devices.setdefault(name, set()):
                    yield Problem(
                        f"super_device_id {device.super_device_id} is given twice in super-pod '{name}'", path
                    )
                else:
                    devices[name].add(device.super_device_id)

    def _devices(self) -> Iterator[tuple[str, RankDeviceSpec]]:
        for at, server in enumerate(self.server_list):
            for number, device in enumerate(server.device):
                yield f"server_list.{at}.device.{number}", device


def _twice(key: str, parts: Iterator[tuple[str, Any]]) -> Iterator[Problem]:
    """What has been given to an earlier part under a key."""
    first: dict[str, str] = {}
    for path, part in parts:
        value = getattr(part, key)
        if value is None:
            continue
        value = str(int(value)) if key in ("rank_id", "device_id") else value
        earlier = first.setdefault(value, path)
        if earlier != path:
            yield Problem(f"{key} {value} is given twice, first at {json_path(earlier)}", f"{path}.{key}")


def json_path(path: str) -> str:
    """``server_list.0.device.3`` as ``server_list[0].device[3]``."""
    text = ""
    for key in path.split("."):
        text += f"[{key}]" if key.isdecimal() else f".{key}" if text else key
    return text
