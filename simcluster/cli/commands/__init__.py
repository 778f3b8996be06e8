"""One file per command: a function of the file's name, and examples of its use."""

from __future__ import annotations

from types import ModuleType

import typer

from simcluster.cli.commands import (
    accuracy,
    catalog,
    check,
    collective,
    compare,
    explain,
    import_,
    init,
    layouts,
    lint,
    run,
    schedule,
    schema,
    topology,
    verify,
)

_IN_ORDER: tuple[ModuleType, ...] = (
    run,
    init,
    import_,
    lint,
    verify,
    layouts,
    explain,
    compare,
    check,
    collective,
    topology,
    schedule,
    accuracy,
    catalog,
    schema,
)


def add_to(app: typer.Typer) -> None:
    """Gives the application its commands."""
    for module in _IN_ORDER:
        function = module.__name__.rpartition(".")[2]
        name = function.removesuffix("_")  # import is a word of Python
        examples = "\n".join(f"  {line}" for line in module.EXAMPLES)
        app.command(name, epilog=f"\b\nExamples:\n{examples}")(getattr(module, function))
