"""One file or package per command: a function of its name, and examples of its use."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import typer

_MODULES = (
    "run.command",
    "report",
    "init.command",
    "import_.command",
    "lint.command",
    "verify",
    "layouts.command",
    "export",
    "explain",
    "whatif",
    "advise",
    "compare.command",
    "checkpoint.command",
    "search.command",
    "sweep.command",
    "check",
    "collective.command",
    "topology.command",
    "schedule.command",
    "launch.command",
    "accuracy.command",
    "calibrate.command",
    "catalog.command",
    "schema",
    "guide.command",
)
"""The modules of commands, in the order of the help text; each is imported when its command is added."""


def names() -> list[str]:
    """The names of all commands, in the order of the help text."""
    return [_function(module).removesuffix("_") for module in _MODULES]  # import is a word of Python


def add_to(app: typer.Typer, wanted: Sequence[str]) -> None:
    """Adds the commands of these names to the application, in the order of the help text."""
    for name, module in zip(names(), _MODULES, strict=True):
        if name in wanted:
            command = import_module(f"{__name__}.{module}")
            examples = "\n".join(f"  {line}" for line in command.EXAMPLES)
            epilog = f"\b\nExamples:\n{examples}"
            own = getattr(command, _function(module))
            if isinstance(own, typer.Typer):
                # A command with commands of its own, which have one list of examples.
                app.add_typer(own, name=name, epilog=epilog, help=command.HELP)
            else:
                app.command(name, epilog=epilog)(own)


def list_in(app: typer.Typer) -> None:
    """Adds to the application what its help says of each command: a name and a line, and no options, whose
    reading takes longer than everything else of a help text.
    """
    for name, module in zip(names(), _MODULES, strict=True):
        command = import_module(f"{__name__}.{module}")
        own = getattr(command, _function(module))
        app.command(name, help=command.HELP if isinstance(own, typer.Typer) else own.__doc__)(_listed)


def _listed() -> None:
    """Stands where only names of commands are shown."""


def _function(module: str) -> str:
    return module.partition(".")[0]
