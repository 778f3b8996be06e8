"""One setting of another tool's file, and what becomes of those that a scenario cannot hold."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Any

from simcluster.deferred_dataclass import dataclass

_WIDTH = 72


@dataclass(frozen=True, slots=True)
class Flag:
    """A setting as another tool's file has it.

    ``name`` is its name there (``--num-layers``, ``zero_optimization.stage``), ``value`` plain data, ``text``
    what stands in the file, ``where`` the place (``pretrain.sh:12``); a default of the tool has no place.
    ``missing`` says what the file leaves open in the value, such as a shell variable it does not set;
    ``condition`` why the whole setting may not be there.
    """

    name: str
    value: Any = field(compare=False)
    text: str = field(default="", compare=False)
    where: str = ""
    missing: str = ""
    condition: str = ""

    def __str__(self) -> str:
        return one_line(self.text)


class TranslationStatus(StrEnum):
    """What becomes of a setting that is not in the scenario; ``Facts`` has a method for each."""

    UNSUPPORTED = "changes the result"
    EFFECTLESS = "has no effect on time or memory"
    PROFILE = "left to the framework profile"
    UNKNOWN = "unknown"
    ABSORBED = "worked into other values"


@dataclass(frozen=True, slots=True)
class Untranslated:
    """A setting that is not in the scenario, and what that means for the result."""

    flag: Flag
    status: TranslationStatus
    reason: str = ""

    def __str__(self) -> str:
        place = f"{self.flag.where}: " if self.flag.where else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{place}{self.flag}: {self.status}{reason}"


def one_line(text: str, width: int = _WIDTH) -> str:
    """A text on one line without control characters, long ones cut: fit for a comment and a terminal."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"
