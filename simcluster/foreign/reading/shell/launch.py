"""The launch in a script: which of its commands starts the training, and with which flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.reading.flag import Flag, one_line
from simcluster.foreign.reading.shell.batch import batch_fields
from simcluster.foreign.reading.shell.field import Command, Field, Script, TextPiece

_NUMBER = re.compile(r"-[0-9.]")
_TELLING = ("echo", "printf", "cat", "set")
_PROGRAM = re.compile(r"\.py$")
_LIST = re.compile(r"\[[@*]\]|(?:arg|arguments|option|opt|flag|param)s?\}$", re.I)
"""Variables that hold arguments, by their brackets or their names."""


@dataclass(frozen=True)
class Launch:
    """What starts the processes, and what the program is told; ``program`` is its name where there is one."""

    launcher: tuple[Flag, ...]
    arguments: tuple[Flag, ...]
    program: Flag | None = None


def find_launch(script: Script, text: str, marks: frozenset[str], noun: str) -> Launch:
    """The one command of a script that has flags of the training program; ``marks`` are some that it has.

    Where no command has them, the script only sets variables for another one, or is a bare list of flags:
    then all flags in it count. ScenarioError if there are none, or several commands to choose from.
    """
    commands = [
        Command(tuple(_opened(command.fields)), command.line, command.sure) for command in script.commands
    ]
    marked = [
        command
        for command in commands
        if marks & {_name(field) for field in command.fields}
        and not command.fields[0].text.startswith("-")
        and command.fields[0].text not in _TELLING
    ]
    distinct = {tuple(field.text for field in command.fields): command for command in reversed(marked)}
    if len(distinct) > 1:
        lines = ", ".join(str(command.line) for command in reversed(distinct.values()))
        raise ScenarioError(
            Problem(
                f"this script starts {noun} in {len(distinct)} places, on lines {lines}",
                where=script.name,
                hint="keep one of them in a copy of the script"
                if all(command.sure for command in distinct.values())
                else "say with --var what decides which one runs, or keep one in a copy of the script",
            )
        )
    batch = flags_of_fields(batch_fields(text, script), script)
    if distinct:
        command = next(iter(distinct.values()))
        _strays(script, commands, command)
        return launch_of_words([command.fields], batch, script)
    loose = [tuple(command.fields) for command in commands]
    loose += [tuple(p for value in values for p in value.split()) for values in script.values.values()]
    launch = launch_of_words(loose, batch, script)
    if not marks & {flag.name for flag in launch.arguments}:
        hint = f"expected a command with flags such as {', '.join(sorted(marks)[:3])}"
        if script.sourced:
            hint += "; flags in files that this one reads are not seen: put both into one"
        raise ScenarioError(
            Problem(f"no arguments of {noun} are found in this file", where=script.name, hint=hint)
        )
    return launch


def launch_of_words(parts: Iterable[Sequence[Field]], batch: list[Flag], script: Script) -> Launch:
    """In each part, what stands before the program is the launcher's, and the rest the program's."""
    launcher, arguments, program = batch, list[Field](), None
    for fields in parts:
        at = next((i for i, field in enumerate(fields) if _PROGRAM.search(field.text)), -1)
        if at >= 0:
            launcher = [*launcher, *flags_of_fields(fields[:at], script)]
            text = fields[at].text
            where = f"{script.name}:{fields[at].line}"
            program = program or Flag(one_line(text.rpartition("/")[2]), text, one_line(text), where)
        arguments += fields[at + 1 :]
    return Launch(tuple(launcher), tuple(flags_of_fields(arguments, script)), program)


def flags_of_fields(fields: Iterable[Field], script: Script) -> list[Flag]:
    """Fields as flags with their values: true for a flag alone, a list of texts for what follows one.

    A word that is not known, and is no value of the flag before it, is a setting of its own.
    """
    flags: list[Flag] = []
    current: Field | None = None
    values: list[Field] = []
    head = ""

    def close() -> None:
        if current is not None:
            texts = [value.text for value in values]
            parts = (current, *values)
            said = _missing([m for field in parts for m in field.missing], script)
            text = " ".join([head, *texts])
            condition = next((field.condition for field in parts if field.condition), "")
            where = f"{script.name}:{current.line}"
            flags.append(Flag(head, texts or True, text, where, one_line(said, 200), condition))

    for field in fields:
        text = field.text
        if text.startswith("-") and len(text) > 1 and not _NUMBER.match(text):
            close()
            current, values = field, []
            head, equals, value = text.partition("=")
            if equals:
                values = [Field((TextPiece(value, field.line),))]
        elif field.missing == (text,) and (values or current is None or _LIST.search(text)):
            close()
            current, values, head = None, [], ""
            where = f"{script.name}:{field.line}"
            flags.append(Flag(text, None, text, where, one_line(_unset(text, script), 200)))
        elif current is not None and (text.strip() or not values):
            values.append(field)
    close()
    return flags


def _unset(word: str, script: Script) -> str:
    """What is said of a whole word that is not known; nothing of one that is empty as the script runs."""
    name = word.strip("${}").partition("[")[0]
    if word in script.reasons or not (name.isidentifier() or name.isdecimal()):
        return _missing([word], script)
    if name in script.skipped:
        return ""
    return f"nothing in this file sets it, and it is taken as empty; --var {name}=... says what it holds"


def _missing(missing: Sequence[str], script: Script) -> str:
    """What is said of a word that the file leaves open."""
    if not missing:
        return ""
    first = missing[0]
    name = first.strip("${}").partition("[")[0]
    if not (name.isidentifier() or name.isdecimal()):
        return f"the file leaves open what {first} is: only a shell could tell"
    reason = script.reasons.get(first, "")
    why = f", {reason}" if reason else ""
    return f"the file leaves open what {first} is{why}; give --var {name}=VALUE"


def _name(each: Field) -> str:
    return each.text.partition("=")[0]


def _opened(fields: Sequence[Field]) -> Iterable[Field]:
    """Fields with whole command lines in them (``sh -c "python ... --flag"``) taken apart."""
    for field in fields:
        text = field.text
        if " --" in text or "\n--" in text or (text.startswith("--") and " " in text):
            for piece in field.split():
                stripped = piece.text.strip("'\"")
                yield Field((TextPiece(stripped, piece.line, piece.condition),), piece.missing)
        else:
            yield field


def _strays(script: Script, commands: Sequence[Command], launch: Command) -> None:
    """Remarks on flags that stand alone, behind a line end that was meant to be continued."""
    for command in commands:
        first = command.fields[0] if command.fields else None
        if command is not launch and first is not None and first.text.startswith("--"):
            script.remarks.append(
                f"{script.name}:{command.line}: '{one_line(first.text)}' begins a command of its own and is "
                "not passed on; is a '\\' missing at the end of the line above?"
            )
