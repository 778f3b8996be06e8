"""The launch in a manifest of Kubernetes: PyTorchJob, TrainJob, MPIJob, Volcano's Job, Job, JobSet, Pod."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Document
from simcluster.errors import ScenarioError
from simcluster.foreign.reading.flag import Flag

_KIND = re.compile(r"^kind:\s*[\"']?\w*(?:Job|JobSet|Pod|Deployment|StatefulSet)[\"']?\s*$", re.M)
_SEPARATOR = re.compile(r"^---[^\n]*$", re.M)
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_DEVICES = re.compile(r"(?:nvidia\.com/(?:gpu|mig\S*)|huawei\.com/\S+|amd\.com/gpu)")
_COUNTS = ("replicas", "numNodes", "parallelism")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one container of a manifest runs, as a script, and on how many hosts the job has devices."""

    text: str
    """The script, with the lines of the manifest as far as they can be told."""
    launcher: tuple[Flag, ...]
    """Hosts and devices of each, as options of a launcher."""


@dataclass(frozen=True, slots=True)
class _Container:
    text: str
    line: int
    hosts: int
    devices: int
    line_of_hosts: int


def read_manifest(text: str, name: str, marks: Iterable[str]) -> Manifest | None:
    """The launch of the first container whose command has one of the ``marks``; None if there is none.

    Commands are read as a shell would read them; nothing is executed.
    """
    if "apiVersion:" not in text or _KIND.search(text) is None:
        return None
    containers = [
        container for document in _documents(text, name) for container in _containers(document, name)
    ]
    chosen = next(
        (container for container in containers if any(mark in container.text for mark in marks)), None
    )
    if chosen is None:
        return None
    working = [container for container in containers if container.devices] or [chosen]
    hosts, devices = (
        sum(container.hosts for container in working),
        max(container.devices for container in working),
    )
    flags = [_flag("--nnodes", hosts, "replicas", chosen, name)]
    if devices:
        flags.append(_flag("--nproc-per-node", devices, "devices of a container", chosen, name))
    return Manifest("\n" * (_first_line(text, chosen) - 1) + chosen.text, tuple(flags))


def _first_line(text: str, container: _Container) -> int:
    """Where the script of a container begins in the file."""
    first = container.text.partition("\n")[0].strip()
    rows = enumerate(text.splitlines(), 1)
    return next((n for n, row in rows if n >= container.line and row.strip() == first), container.line)


def _flag(option: str, count: int, noun: str, container: _Container, name: str) -> Flag:
    return Flag(option, [str(count)], f"{noun}: {count}", f"{name}:{container.line_of_hosts}")


def _documents(text: str, name: str) -> Iterator[Document]:
    """The documents of a file, each at its own lines; those that are no YAML are left out."""
    start = 0
    ends = [*_SEPARATOR.finditer(text)]
    for begin, end in [(match.start(), match.end()) for match in ends] + [(len(text), len(text))]:
        part = text[start:begin]
        if "kind:" in part:
            with suppress(ScenarioError):
                yield Document.parse("\n" * text.count("\n", 0, start) + part, name)
        start = end


def _containers(document: Document, name: str) -> Iterator[_Container]:
    yield from _below(document, document.data, (), 1, 1)


def _below(
    document: Document, data: Any, path: tuple[Any, ...], hosts: int, line: int
) -> Iterator[_Container]:
    """The containers under a path; ``hosts`` are the copies that sections around it ask for."""
    if isinstance(data, list):
        for place, item in enumerate(data):
            yield from _below(document, item, (*path, place), hosts, line)
        return
    if not isinstance(data, Mapping):
        return
    for key in _COUNTS:
        if isinstance(data.get(key), int) and data[key] > 0:
            hosts, line = hosts * data[key], document.mark((*path, key)).line
    words = [word for key in ("command", "args") for word in _words(data.get(key))]
    if words:
        key = "command" if data.get("command") else "args"
        yield _container(words, document.mark((*path, key)).line, data, hosts, line)
    for key, value in data.items():
        if key not in ("command", "args"):
            yield from _below(document, value, (*path, key), hosts, line)


def _container(words: list[str], at: int, data: Mapping[str, Any], hosts: int, line: int) -> _Container:
    """One container: what a shell is given, or the words of its command as one line."""
    shell = words[0] in _SHELLS and len(words) > 2
    flag = next((place for place, word in enumerate(words[:-1]) if re.fullmatch(r"-\w*c", word)), 0)
    script = words[flag + 1] if shell and flag else _line(words)
    return _Container(script, at, hosts, _devices(data), line)


def _line(words: list[str]) -> str:
    """Words as a shell takes them; ``$(NAME)``, which Kubernetes fills in, as a variable."""
    named = [re.sub(r"\$\((\w+)\)", r"${\1}", word) for word in words]
    return " ".join(word if "$" in word or "\n" in word else shlex.quote(word) for word in named)


def _devices(data: Mapping[str, Any]) -> int:
    resources = data.get("resources")
    sections = (
        [resources.get(key) for key in ("limits", "requests")] if isinstance(resources, Mapping) else []
    )
    for section in sections:
        for key, count in section.items() if isinstance(section, Mapping) else ():
            if _DEVICES.fullmatch(str(key)) and str(count).isdecimal():
                return int(count)
    return 0


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
