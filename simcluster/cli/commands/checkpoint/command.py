"""``simcluster checkpoint``, and the commands under it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster checkpoint costs scenarios/megatron-1t-512-h200-from-2048.yaml",
    "simcluster verify scenarios/tiny-gpt-cpu.yaml --save small",
    "simcluster checkpoint transform small --to other.yaml --out cut",
    "simcluster checkpoint resume cut",
    "simcluster checkpoint interval --save 40s --mtbf 3.09h",
)

HELP = "Show what checkpoints cost; reshard and resume small ones."

checkpoint = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A checkpoint, as simcluster verify --save writes it.")
]
Merged = Annotated[bool, typer.Option("--merged", help="One file of whole tensors, not one per rank.")]


@checkpoint.command()
def costs(scenario: OneScenario, settings: Settings = None) -> ExitCode:
    """Show what checkpoints hold and cost: bytes, files, seconds, and what loading takes."""
    from simcluster.cli.commands.checkpoint.checkpoint_text import rows_text
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.report import checkpoint_rows
    from simcluster.scenario import Scenario
    from simcluster.simulation import price_checkpoints

    loaded = Scenario.load(scenario, changes(settings))
    with progress_line(loaded.name, doing="simulating"):
        result = price_checkpoints(loaded).document()
    rows = checkpoint_rows({"job": {"checkpoints": result}})
    print_result(rows_text(f"Checkpoints of {loaded.name}", rows, colour=has_colour()), drawn=True)
    return ExitCode.DONE


@checkpoint.command()
def transform(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|SCENARIO|FILE.json",
            help="A checkpoint of a small run, a scenario, or MindSpore's strategy file.",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="SCENARIO", help="The scenario with the other plan.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the files for that plan are written.")
    ] = None,
    merged: Merged = False,
    strategy_file: Annotated[
        Path | None,
        typer.Option(
            "--predict-strategy",
            metavar="FILE.json",
            help="Count for this file, not the plan of --to.",
        ),
    ] = None,
    rank: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="List the source ranks whose files rank N needs, too. May be repeated."
        ),
    ] = None,
    settings: Settings = None,
) -> ExitCode:
    """Cut a checkpoint for another plan: which rank needs which files, and the files themselves.

    The files of a small run's checkpoint are cut: the other plan is made for the same small model, with at
    most 64 ranks. For a scenario, or for strategy files (one, or a folder with those of all stages), it only
    counts what would be read. --set changes the scenario of --to.
    """
    from simcluster.cli.commands.checkpoint.transformed import Transformed
    from simcluster.cli.output.result_files import check_folder
    from simcluster.cli.output.terminal import has_colour, print_note, print_result

    check_folder("--out", out)
    done = Transformed.of(source, to, out, changes(settings), merged=merged, predict=strategy_file)
    print_result(done.text(rank or (), colour=has_colour()), drawn=True)
    if out is not None:
        print_note(f"written: {out}")
    return ExitCode.DONE


@checkpoint.command()
def resume(
    folder: Folder,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Steps to train.")] = 2,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Save a checkpoint after them.")] = None,
    merged: Merged = False,
) -> ExitCode:
    """Continue training from a checkpoint, and compare it with one device that was never interrupted.

    Exit code 1 if they differ.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_folder
    from simcluster.cli.output.terminal import has_colour, print_note, print_result
    from simcluster.report import verification_text
    from simcluster.simulation import resume_checkpoint

    check_folder("--save", save)
    with progress_line(str(folder), doing="training"):
        result = resume_checkpoint(folder, steps=steps, save=save, merged=merged)
    print_result(verification_text(result.document(), colour=has_colour()), drawn=True)
    if save is not None and result.agrees:
        print_note(f"written: {save}")
    return ExitCode.DONE if result.agrees else ExitCode.FAILED


@checkpoint.command()
def load(
    folder: Folder,
    predict: Annotated[
        str,
        typer.Option("--predict", metavar="SCENARIO", help="An inference: it is loaded under its plan."),
    ],
    settings: Settings = None,
) -> ExitCode:
    """Load the weights of a checkpoint for inference, and compare logits with one device.

    Exit code 1 if they differ.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.report import verification_text
    from simcluster.scenario import Scenario
    from simcluster.simulation import load_for_inference

    target = Scenario.load(predict, changes(settings))
    with progress_line(target.name, doing="loading"):
        result, _ = load_for_inference(folder, target)
    print_result(verification_text(result.document(), colour=has_colour()), drawn=True)
    return ExitCode.DONE if result.agrees else ExitCode.FAILED


@checkpoint.command()
def strategy(
    scenario: OneScenario,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where it is written.")],
    stage: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only this pipeline stage; otherwise all, merged.")
    ] = None,
    states: Annotated[bool, typer.Option("--states", help="Optimizer states have entries, too.")] = False,
    settings: Settings = None,
) -> ExitCode:
    """Write MindSpore's strategy file of a plan, in JSON, for load_distributed_checkpoint and others."""
    import json

    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.errors import ScenarioError
    from simcluster.scenario import Scenario
    from simcluster.simulation import strategy_file_of

    check_writable("--out", out)
    file = strategy_file_of(Scenario.load(scenario, changes(settings)), only_trainable=not states)
    if stage is not None and stage not in file.stages:
        raise ScenarioError(f"--stage {stage}: the plan has stages 0 to {max(file.stages)}")
    write_text(out, json.dumps(file.document(stage)) + "\n")
    return ExitCode.DONE


@checkpoint.command()
def groups(
    scenario: OneScenario,
    rank: Annotated[int, typer.Option(metavar="N", min=0, help="The rank.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.pb", help="Also write MindSpore's group file.")
    ] = None,
    settings: Settings = None,
) -> ExitCode:
    """Show the groups of a rank, and the ranks from which it can be restored: restore_group_info_list."""
    from simcluster.cli.commands.checkpoint.checkpoint_text import rows_text
    from simcluster.cli.output.result_files import check_writable, write_bytes
    from simcluster.cli.output.terminal import has_colour, print_note, print_result
    from simcluster.scenario import Scenario
    from simcluster.simulation import group_file_of

    check_writable("--out", out)
    loaded = Scenario.load(scenario, changes(settings))
    file = group_file_of(loaded, rank)
    rows = [("restore from", " ".join(map(str, file.restore_ranks)))]
    rows += [("group", " ".join(map(str, ranks))) for ranks in file.groups.values()]
    print_result(rows_text(f"Rank {rank} of {loaded.name}", rows, colour=has_colour()), drawn=True)
    if out is not None:
        write_bytes(out, file.encode())
        print_note(f"written: {out}")
    return ExitCode.DONE


@checkpoint.command()
def interval(
    save: Annotated[str, typer.Option(metavar="TIME", help="How long training waits for one checkpoint.")],
    mtbf: Annotated[str, typer.Option(metavar="TIME", help="Mean time between failures of the job.")],
    restart: Annotated[
        str, typer.Option(metavar="TIME", help="Time from a failure until training continues.")
    ] = "0 s",
    background: Annotated[
        str, typer.Option(metavar="TIME", help="How long a checkpoint is then written beside training.")
    ] = "0 s",
) -> ExitCode:
    """Show how often to save: Young's and Daly's intervals, the best one, and what each loses."""
    from simcluster.cli.commands.checkpoint.checkpoint_text import interval_text
    from simcluster.cli.output.terminal import has_colour, print_result

    print_result(interval_text(save, mtbf, restart, background, colour=has_colour()), drawn=True)
    return ExitCode.DONE
