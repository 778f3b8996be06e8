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

    from simcluster.cli.terminal import out
    from simcluster.document import json_schema
    from simcluster.scenario import ScenarioSpec

    out(json.dumps(json_schema(ScenarioSpec), indent=2, ensure_ascii=False))
