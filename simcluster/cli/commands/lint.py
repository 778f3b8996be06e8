"""``simcluster lint``."""

from __future__ import annotations

from simcluster.cli.exit_code import ExitCode
from simcluster.cli.options import Scenarios, Settings, changes

EXAMPLES = (
    "simcluster lint scenarios/*.yaml",
    "simcluster lint plan.yaml --set parallel.mesh.tensor=4 --set cluster.hosts=16",
)


def lint(scenarios: Scenarios, settings: Settings = None) -> ExitCode:
    """Check scenarios and plan them without running them.

    Prints what follows from each (ranks, micro-batches, layers per stage), or everything that is wrong.
    """
    from simcluster.baseline import bounds
    from simcluster.cli.planned import planned_text
    from simcluster.cli.terminal import complain, has_colour, out
    from simcluster.errors import SimclusterError
    from simcluster.scenario import Scenario
    from simcluster.simulation import prepare

    changed, worst = changes(settings), ExitCode.DONE
    for path in scenarios:
        try:
            scenario = Scenario.load(path, changed)
            bounds(scenario)
            built = prepare(scenario)
        except SimclusterError as error:
            complain(error)
            worst = max(worst, ExitCode.of(error))
            continue
        out(planned_text(path, built, colour=has_colour()))
    return worst
