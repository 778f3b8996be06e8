"""``simcluster layouts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode
from simcluster.registry import names_in

EXAMPLES = (
    "simcluster layouts scenarios/quickstart.yaml",
    "simcluster layouts plan.yaml --operator 'layers.*.attention.*'",
    "simcluster layouts plan.yaml --operator 'layers.0.*' --tensor-maps    as MindSpore writes them",
    "simcluster layouts inference.yaml --predict    layouts of all weights",
    "simcluster layouts plan.yaml --after differentiate --operator 'layers.0.*'    before sharding",
    "simcluster layouts plan.yaml --as-strategies    to paste under parallel: strategies:",
)


def layouts(
    scenario: OneScenario,
    operator: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only operators such as 'layers.*.mlp.up'.")
    ] = None,
    as_strategies: Annotated[
        bool, typer.Option("--as-strategies", help="Print the effective strategies as YAML instead.")
    ] = False,
    tensor_maps: Annotated[
        bool,
        typer.Option(
            "--tensor-maps",
            help="Add device matrices and tensor maps as MindSpore has them.",
        ),
    ] = False,
    predict: Annotated[
        bool,
        typer.Option(
            "--predict", help="Print the layouts of all weights of an inference (infer_predict_layout)."
        ),
    ] = False,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="PASS",
            help="Show the graph after a pass of the planner, not the last one. In their order: "
            f"{', '.join(names_in('plan/passes.txt'))}.",
        ),
    ] = None,
    settings: Settings = None,
) -> ExitCode:
    """Show how every operator is sharded, why, and what is sent."""
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.errors import ScenarioError
    from simcluster.report import layouts_text
    from simcluster.scenario import Scenario
    from simcluster.simulation import build_scenario, effective_strategies_of, layouts_after, layouts_document

    if as_strategies and operator is not None:
        raise typer.BadParameter("the strategies are printed whole; leave out --operator")
    if as_strategies and tensor_maps:
        raise typer.BadParameter("strategies have no tensor maps; leave out --tensor-maps")
    if predict and (as_strategies or tensor_maps or operator is not None):
        raise typer.BadParameter("weights are shown whole and by themselves; leave the other options out")
    if after is not None and (as_strategies or predict):
        raise typer.BadParameter("strategies and weights are those of the whole plan; leave out --after")
    loaded = Scenario.load(scenario, changes(settings))
    if predict:
        from simcluster.report import weights_text
        from simcluster.simulation import predict_layouts

        print_result(weights_text(predict_layouts(loaded), colour=has_colour()), drawn=True)
        return ExitCode.DONE
    notes: Sequence[str] = ()
    if as_strategies:
        from simcluster.cli.commands.layouts.strategies_yaml import strategies_text

        print_result(strategies_text(effective_strategies_of(build_scenario(loaded).plan)))
    else:
        if after is not None:
            document = layouts_after(loaded, after, maps=tensor_maps)
        else:
            built = build_scenario(loaded)
            document, notes = layouts_document(built, maps=tensor_maps), built.plan.notes
        if operator is not None and not _occurs(operator, document):
            message = f"no operator is called '{operator}'"
            raise ScenarioError(message, hint="write for example 'layers.*.mlp.up', or 'head.*'")
        for note in notes:
            print_result(f"note  {note}")
        print_result(layouts_text(document, operator, colour=has_colour()), drawn=True)
    return ExitCode.DONE


def _occurs(pattern: str, document: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pattern fits any operator."""
    from simcluster.document import matches

    return any(
        matches(pattern, f"{instance}.{node['name']}")
        for block in document
        for instance in block["names"]
        for node in block["nodes"]
    )
