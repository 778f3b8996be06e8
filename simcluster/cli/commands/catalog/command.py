"""``simcluster catalog``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from simcluster.cli.output.exit_code import ExitCode
from simcluster.listings import FOLDERS

EXAMPLES = (
    "simcluster catalog",
    "simcluster catalog models",
    "simcluster catalog devices h100-sxm",
    "simcluster catalog hosts dgx-h100 --json | jq .fabric",
    "simcluster catalog dgx-h100 --yaml > my-host.yaml      a file of your own to change",
)


def _families(incomplete: str) -> list[str]:
    return [family for family in FOLDERS if family.startswith(incomplete)]


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    from simcluster.registry import data_files

    folder = FOLDERS.get(ctx.params.get("family") or "")
    return [name for name in data_files(folder) if name.startswith(incomplete)] if folder else []


def catalog(
    family: Annotated[
        str | None,
        typer.Argument(metavar=f"[{'|'.join(FOLDERS)}]", autocompletion=_families, show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=_names, show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON.")] = False,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the file of one entry, to be changed and used in its place.")
    ] = False,
) -> ExitCode:
    """Show the devices, hosts, models and recipes that are shipped.

    With a name, the entry with every figure, where it comes from, and whether it is measured, stated by the
    vendor or assumed.
    """
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.errors import Problem, ScenarioError
    from simcluster.listings import titles, titles_text

    if yaml and (json or (family is None and name is None) or (family in FOLDERS and name is None)):
        problem = "use it without --json" if json else "name an entry: simcluster catalog dgx-h100 --yaml"
        raise ScenarioError(Problem(problem, where="--yaml"))
    colour = has_colour()
    if name is None and (json or family is None) and family in (None, *FOLDERS):
        families = [family] if family else list(FOLDERS)
        print_result(_json(titles(families)) if json else titles_text(colour=colour), drawn=not json)
        return ExitCode.DONE
    from simcluster import listings

    if family is not None and name is None and family not in FOLDERS:
        family, name = listings.family_of(family, listings.OWN_FILES if yaml else ()), family
    if family is None or name is None:
        text = listings.listing_text(family or "", colour=colour)
    elif yaml:
        text = listings.entry_yaml(family, name)
    else:
        text = (
            _json(listings.entry_data(family, name))
            if json
            else listings.entry_text(family, name, colour=colour)
        )
    print_result(text, drawn=not json)
    return ExitCode.DONE


def _json(data: dict[str, Any]) -> str:
    from json import dumps

    return dumps(data, indent=2, ensure_ascii=False)
