"""Processes that a launcher starts: commands and environment, role by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from simcluster.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LaunchedProcesses:
    """Equal processes: ``command`` on every one of ``hosts`` [processes], with ``environment`` for all.

    ``own`` has what differs: variable, or ``{name}`` in the command, -> its value for each [processes].
    """

    role: str
    command: str
    hosts: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def line(self, index: int) -> str:
        """One of them as it would be typed."""
        inside = {name: values[index] for name, values in self.own.items() if f"{{{name}}}" in self.command}
        variables = {
            **self.environment,
            **{name: values[index] for name, values in self.own.items() if name not in inside},
        }
        command = self.command
        for name, value in inside.items():
            command = command.replace(f"{{{name}}}", value)
        return " ".join([*(f"{name}={value}" for name, value in variables.items()), command])

    def document(self) -> dict[str, Any]:
        """It as plain data; lists have a value for each process."""
        return {
            "role": self.role,
            "processes": len(self.hosts),
            "command": self.command,
            "environment": dict(self.environment),
            "hosts": list(self.hosts),
            "own": {name: list(values) for name, values in self.own.items()},
        }


def shell_word(text: str) -> str:
    """A file's name as a word of a shell, quoted where that is needed."""
    import shlex

    return shlex.quote(text)
