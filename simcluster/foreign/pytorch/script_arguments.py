"""Scripts that start a program around the Trainer: arguments by their names in a file, ranks by variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from simcluster.foreign.reading import Flag, Script, one_line

_RANKS = re.compile(r"(?<![\w$])(NNODES|NPROC_PER_NODE)=[\"']?([^\s\"';\\]+)")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def plain_argument(flag: Flag) -> Flag:
    """A command-line argument under its name in a file: without dashes, values joined by spaces."""
    name = flag.name.removeprefix("--")
    name = name if name.startswith("$") else name.replace("-", "_")
    value = " ".join(map(str, flag.value)) if flag.name.startswith("--") and flag.value is not True else None
    return replace(flag, name=name, value=flag.value if value is None else value)


def rank_variables(text: str, script: Script) -> Iterator[Flag]:
    """``NNODES=2 NPROC_PER_NODE=8`` before a command, as the options of torchrun that they stand for.

    ms-swift and LLaMA-Factory start their ranks by these variables themselves.
    """
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for setting in _RANKS.finditer(line):
            name, value = setting[1], setting[2]
            variable = _VARIABLE.fullmatch(value)
            if variable is not None:
                fields = script.values.get(variable[1], [])
                value = fields[0].text if len(fields) == 1 else value
            if name not in seen and value.isdecimal():
                seen.add(name)
                where = f"{script.name}:{number}"
                yield Flag(f"--{name.lower()}", [value], one_line(setting[0]), where)
