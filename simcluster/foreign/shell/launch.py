"""The launch in a script: which of its commands starts the training, and with which flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.flag import Flag, plain
from simcluster.foreign.shell.expand import Command, Field, Script

_NUMBER = re.compile(r"-[0-9.]")
_TELLING = ("echo", "printf", "cat")
_BATCH = re.compile(r"#(?:SBATCH|BSUB|PBS)\s+(.*)")


@dataclass(frozen=True)
class Launch:
    """What starts the processes, and what the training program is told."""

    launcher: tuple[Flag, ...]
    arguments: tuple[Flag, ...]


def find_launch(script: Script, text: str, marks: frozenset[str], noun: str) -> Launch:
    """The one command of a script that has flags of the training program; ``marks`` are some that it has.

    Where no command has them, the script only sets variables for another one, or is a bare list of flags:
    then all flags in it count. ScenarioError if there are none, or several commands to choose from.
    """
    commands = [
        Command(tuple(_opened(command.fields)), command.line, command.sure) for command in script.commands
    ]
    found = [
        command
        for command in commands
        if marks & {_name(each) for each in command.fields}
        and not command.fields[0].text.startswith("-")
        and command.fields[0].text not in _TELLING
    ]
    distinct = {tuple(each.text for each in command.fields): command for command in reversed(found)}
    if len(distinct) > 1:
        lines = ", ".join(str(command.line) for command in reversed(distinct.values()))
        raise ScenarioError(
            Problem(
                f"this script starts {noun} in {len(distinct)} places, on lines {lines}",
                where=script.name,
                hint="keep one of them in a copy of the script",
            )
        )
    batch = flags(_batch_lines(text), script.name)
    if distinct:
        command = next(iter(distinct.values()))
        program = next((i for i, each in enumerate(command.fields) if each.text.endswith(".py")), -1)
        arguments = flags(command.fields[program + 1 :], script.name)
        _strays(script, commands, command)
        return Launch((*batch, *flags(command.fields[: program + 1], script.name)), tuple(arguments))
    loose = [each for command in commands for each in command.fields]
    for values in script.values.values():
        loose += [piece for value in values for piece in value.split()]
    arguments = flags(loose, script.name)
    if not marks & {flag.name for flag in arguments}:
        raise ScenarioError(
            Problem(
                f"no arguments of {noun} are found in this file",
                where=script.name,
                hint=f"expected a command with flags such as {', '.join(sorted(marks)[:3])}",
            )
        )
    return Launch(tuple(batch), tuple(arguments))


def flags(fields: Iterable[Field], name: str) -> list[Flag]:
    """Fields as flags with their values: true for a flag alone, a list of texts for what follows one."""
    found: list[Flag] = []
    current: Field | None = None
    values: list[Field] = []
    head = ""

    def close() -> None:
        if current is not None:
            texts = [value.text for value in values]
            missing = [m for each in (current, *values) for m in each.missing]
            said = f"the file leaves open what {missing[0]} is; give --var NAME=VALUE" if missing else ""
            text = " ".join([head, *texts])
            found.append(Flag(head, texts or True, text, f"{name}:{current.line}", plain(said, 200)))

    for each in fields:
        text = each.text
        if text.startswith("-") and len(text) > 1 and not _NUMBER.match(text):
            close()
            current, values = each, []
            head, equals, value = text.partition("=")
            if equals:
                values = [Field(((value, each.line),))]
        elif current is not None:
            values.append(each)
    close()
    return found


def _name(each: Field) -> str:
    return each.text.partition("=")[0]


def _opened(fields: Sequence[Field]) -> Iterable[Field]:
    """Fields with whole command lines in them (``sh -c "python ... --flag"``) taken apart."""
    for each in fields:
        text = each.text
        if " --" in text or "\n--" in text or (text.startswith("--") and " " in text):
            for piece in each.split():
                stripped = piece.text.strip("'\"")
                yield Field(((stripped, piece.line),), piece.missing)
        else:
            yield each


def _batch_lines(text: str) -> list[Field]:
    """The words of the comments by which a scheduler is told of nodes and tasks."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _BATCH.match(line.strip())
        if match:
            words = match[1].partition(" #")[0].split()
            found += [Field(((word, number),)) for word in words]
    return found


def _strays(script: Script, commands: Sequence[Command], launch: Command) -> None:
    """Remarks on flags that stand alone, behind a line end that was meant to be continued."""
    for command in commands:
        first = command.fields[0] if command.fields else None
        if command is not launch and first is not None and first.text.startswith("--"):
            script.remarks.append(
                f"{script.name}:{command.line}: '{plain(first.text)}' begins a command of its own and is not "
                "passed on; is a '\\' missing at the end of the line above?"
            )
