"""One file per command: a function of the file's name, and examples of its use."""

from __future__ import annotations

from types import ModuleType

import typer

from simcluster.cli.commands import catalog, check, layouts, lint, run, schema, verify

_IN_ORDER: tuple[ModuleType, ...] = (run, lint, verify, layouts, check, catalog, schema)


def add_to(app: typer.Typer) -> None:
    """Gives the application its commands."""
    for module in _IN_ORDER:
        name = module.__name__.rpartition(".")[2]
        examples = "\n".join(f"  {line}" for line in module.EXAMPLES)
        app.command(name, epilog=f"\b\nExamples:\n{examples}")(getattr(module, name))
