"""What publishers call their hardware, and which host of the catalog that is: the table ``hardware.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import model_validator

from simcluster.cluster import host_names
from simcluster.document import Document, Name, NonNegativeInt, Refused, Section, matches, validate
from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.registry import data_files


class HardwareSpec(Section):
    """One entry: rows whose words match are predicted on ``cluster``."""

    words: Name
    """A pattern over the publisher's words for the hardware, whatever their case."""

    notes: Name = "*"
    """A pattern over the row's notes, where the words leave it open how the bytes went."""

    link: Name = "*"
    """A pattern over what the row says of the links between hosts."""

    cluster: Name
    """The host of the catalog."""

    why: Name
    """Why it is that one, and what in it is inferred."""

    changes: tuple[Mapping[str, Any], ...] = ()
    """What differs of the devices while they run, as ``cluster.changes`` has it: a limit of their power."""

    places: tuple[NonNegativeInt, ...] | None = None
    """The devices of each host on which ranks sit, in order; the first ones if not given."""

    device: Mapping[str, Any] | None = None
    """What is different of the devices: ``{use: h100-sxm, memory: 96 GB}``; no collective depends on it."""

    apart: bool = False
    """Whether the bytes went through the network cards though a closer way was there: ranks that the rows
    count on one host, or in one pod, are placed as if only the network joined them."""

    per_rank: tuple[Name, ...] = ()
    """Operations whose message_bytes count one rank's part, where nccl-tests counts all parts."""

    @model_validator(mode="after")
    def _host_is_known(self) -> HardwareSpec:
        if self.cluster not in host_names():
            raise Refused(f"there is no host '{self.cluster}'", path="cluster")
        return self

    def fits(self, hardware: str, notes: str, link: str = "") -> bool:
        """Whether a row is of this hardware."""
        said = ((self.words, hardware), (self.notes, notes), (self.link, link or "-"))
        return all(matches(pattern.lower(), text.lower()) for pattern, text in said)


class HardwareTable(Section):
    """The whole table; of several entries that match a row the first one counts."""

    hardware: tuple[HardwareSpec, ...]
    """The entries."""


@cache
def known_hardware() -> tuple[HardwareSpec, ...]:
    """The entries of the shipped table, in order."""
    text = data_files("simcluster.accuracy")["hardware"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "hardware.yaml"), HardwareTable).hardware


def hardware_of(hardware: str, notes: str = "", link: str = "") -> HardwareSpec | None:
    """The first entry that matches, or None."""
    return next((entry for entry in known_hardware() if entry.fits(hardware, notes, link)), None)


def named_hardware(cluster: str) -> HardwareSpec:
    """An entry for ``--cluster NAME``; ScenarioError if the catalog has no such host."""
    if cluster not in host_names():
        hint = nearest(cluster, host_names())
        raise ScenarioError(Problem(f"there is no host '{cluster}'", hint=hint, where="--cluster"))
    return HardwareSpec(words="*", cluster=cluster, why="as the command line says")
