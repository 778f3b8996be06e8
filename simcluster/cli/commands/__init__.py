"""One file or package per command: a function of its name, and examples of its use."""

from __future__ import annotations

from types import ModuleType

import typer

from simcluster.cli.commands import check, explain, schema, verify
from simcluster.cli.commands.accuracy import command as accuracy
from simcluster.cli.commands.catalog import command as catalog
from simcluster.cli.commands.collective import command as collective
from simcluster.cli.commands.compare import command as compare
from simcluster.cli.commands.import_ import command as import_
from simcluster.cli.commands.init import command as init
from simcluster.cli.commands.layouts import command as layouts
from simcluster.cli.commands.lint import command as lint
from simcluster.cli.commands.run import command as run
from simcluster.cli.commands.schedule import command as schedule
from simcluster.cli.commands.topology import command as topology

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
    """Adds all commands to the application, in the order of the help text."""
    for name, module in zip(names(), _IN_ORDER, strict=True):
        examples = "\n".join(f"  {line}" for line in module.EXAMPLES)
        app.command(name, epilog=f"\b\nExamples:\n{examples}")(getattr(module, _function(module)))


def names() -> list[str]:
    """The names of all commands, in the order of the help text."""
    return [_function(module).removesuffix("_") for module in _IN_ORDER]  # import is a word of Python


def _function(module: ModuleType) -> str:
    return module.__name__.removesuffix(".command").rpartition(".")[2]
