"""The scenario of a measured run as a file to run."""

from __future__ import annotations

from simcluster.accuracy.hardware import named_hardware
from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.accuracy.runs.translate import scenario_of
from simcluster.scenario import commented_yaml


def run_scenario_yaml(run: MeasuredRun, cluster: str | None = None) -> str:
    """The scenario of a run as YAML; what was measured and what was assumed stand above it.

    ``cluster`` names a host of the catalog, instead of the table's. ScenarioError where the run cannot be
    predicted, with the reason.
    """
    scenario = scenario_of(run, named_hardware(cluster) if cluster else None)
    words = run.words
    head = [
        f"Measured: {words['metric']} {words['value']} {words.get('unit', '')}".rstrip(),
        *(f"Source: {source}" for source in (words.get("source"),) if source),
        *(f"Assumed: {text}" for text in scenario.assumed),
    ]
    return commented_yaml(dict(scenario.data), {}, head=head, tail=[])
