"""``simcluster schema``."""

from __future__ import annotations

EXAMPLES = (
    "simcluster schema > scenario.schema.json",
    "",
    "Then begin a scenario with",
    "# yaml-language-server: $schema=scenario.schema.json",
)


def schema() -> None:
    """Print the JSON Schema of scenarios, for editors."""
    import json

    from simcluster.cli.output.terminal import print_result
    from simcluster.scenario import scenario_schema

    print_result(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))
