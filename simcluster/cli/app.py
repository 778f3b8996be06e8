"""The typer application: its commands in order, and how errors are shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, cast

import typer
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from simcluster._version import __version__
from simcluster.cli import commands
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.terminal import discard_output, print_note, print_problems, print_result
from simcluster.errors import SimclusterError

EXAMPLES = """\b
Examples:
  simcluster run scenarios/quickstart.yaml --trace trace.json.gz
  simcluster lint scenarios/*.yaml
  simcluster check scenarios/ --baseline baseline.json
  simcluster guide

\b
Exit codes: 0 done; 1 does not fit, or a check failed;
            2 wrong input; 130 interrupted.
"""


COMPLETION = "_SIMCLUSTER_COMPLETE"
"""The variable in which a shell says what it wants completed."""


class Commands(TyperGroup):
    """The group of all commands: commands return exit codes, and errors of simcluster show no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command and leaves with its exit code."""
        raise typer.Exit(self._code(ctx))

    def _code(self, ctx: Any) -> int:
        try:
            return int(super().invoke(ctx) or ExitCode.DONE)
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except SimclusterError as error:
            print_problems(error)
            return ExitCode.of(error)
        except OSError as error:
            return _failed(error)
        except MemoryError:
            print_problems("this machine has not enough memory for that simulation")
            return ExitCode.FAILED


def _version(wanted: bool) -> None:
    if wanted:
        print_result(f"simcluster {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@cache
def _application(names: tuple[str, ...]) -> TyperGroup:
    """The group of the commands of these names; without a name, all commands as its help lists them."""
    app = typer.Typer(
        cls=Commands,
        help="Simulates parallel training on clusters: step time, memory and communication, explained.",
        epilog=EXAMPLES,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    if names:
        commands.add_to(app, names)
    else:
        commands.list_in(app)
    group = cast("TyperGroup", get_command(app))
    _show_names_alone(group)
    return group


def _show_names_alone(command: Any) -> None:
    """Shows arguments in help texts as ``SCENARIO``, not as ``SCENARIO <list[str]>``: typer has no option to
    leave the types of Python out.
    """
    for member in getattr(command, "commands", {}).values():
        _show_names_alone(member)
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: ""


def _needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """The commands that a command line needs: the one that it calls; none where it can only ask for help or
    be wrong; all where a word further behind may be a command, or a shell asks how to complete a line.
    """
    names = tuple(commands.names())
    if arguments and arguments[0] in names:
        return (arguments[0],)
    return names if COMPLETION in os.environ or not set(names).isdisjoint(arguments) else ()


def _failed(error: OSError) -> ExitCode:
    """Says which file could not be read or written."""
    named = error.filename2 or error.filename
    place = f"{named}: " if named else ""
    print_problems(f"{place}{(error.strerror or str(error)).lower()}")
    return ExitCode.WRONG_INPUT


def command_line(arguments: Sequence[str]) -> int:
    """Runs a command line, without the program's name, and gives its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # bars on a terminal that has no such characters
    try:
        _application(_needed(arguments)).main(
            args=list(arguments), prog_name="simcluster", obj=tuple(arguments)
        )
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except OSError as error:  # help or usage that nobody can be shown
        discard_output(sys.stdout)
        code = _failed(error)
    if code == ExitCode.INTERRUPTED:
        print_note("interrupted")
    return code
