"""What publishers call devices, and which one of the catalog that is: the table ``devices.yaml``."""

from __future__ import annotations

from functools import cache

from pydantic import model_validator

from simcluster.cluster import device_names
from simcluster.document import Document, Name, Refused, Section, matches, validate
from simcluster.registry import data_files


class KnownDevice(Section):
    """One entry: rows whose words match are predicted on ``device``."""

    words: Name
    """A pattern over the publisher's words, whatever their case."""

    device: Name
    """The device of the catalog."""

    why: Name
    """Why it is that one, and what in it is inferred."""

    @model_validator(mode="after")
    def _device_is_known(self) -> KnownDevice:
        if self.device not in device_names():
            raise Refused(f"there is no device '{self.device}'", path="device")
        return self


class DeviceTable(Section):
    """The whole table; of several entries that match a row the first one counts."""

    devices: tuple[KnownDevice, ...]
    """The entries."""


@cache
def known_devices() -> tuple[KnownDevice, ...]:
    """The entries of the shipped table, in order."""
    text = data_files("simcluster.accuracy.kernels")["devices"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "devices.yaml"), DeviceTable).devices


@cache
def device_of(words: str) -> str | None:
    """The catalog's name of what a publisher calls a device, or None; names of the catalog are their own."""
    if words in device_names():
        return words
    for entry in known_devices():
        if matches(entry.words.lower(), words.lower()):
            return entry.device
    return None
