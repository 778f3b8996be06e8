"""``simcluster schema``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

EXAMPLES = (
    "simcluster schema > scenario.schema.json",
    "simcluster schema --of host > host.schema.json",
    "",
    "Then begin a scenario with",
    "# yaml-language-server: $schema=scenario.schema.json",
)


class DocumentKind(StrEnum):
    """What a file of a user's own may be."""

    SCENARIO = "scenario"
    MODEL = "model"
    FRAMEWORK = "framework"
    HOST = "host"
    DEVICE = "device"


def schema(
    of: Annotated[
        DocumentKind, typer.Option("--of", help="What the file is: a scenario, or a part of one.")
    ] = DocumentKind.SCENARIO,
) -> None:
    """Print the JSON Schema of scenarios or their parts."""
    import json

    from simcluster.cli.output.terminal import print_result
    from simcluster.scenario import entry_schema, scenario_schema

    written = scenario_schema() if of is DocumentKind.SCENARIO else entry_schema(of)
    print_result(json.dumps(written, indent=2, ensure_ascii=False))
