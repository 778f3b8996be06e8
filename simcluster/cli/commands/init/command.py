"""``simcluster init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import complete_names
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster init --model llama3-70b --cluster dgx-h100 --hosts 32 -o plan.yaml",
    "simcluster init --model llama3-70b --cluster dgx-h100 --hosts 32 --framework nemo --quick",
    "simcluster init --model gpt3-175b --cluster dgx-a100 --hosts 64 --global-batch 1536",
    "simcluster init --model llama3-8b --cluster atlas-800t-a2 --hosts 1 --seq-len 8192",
)


def init(
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="A model of the catalog.", autocompletion=complete_names("models")),
    ],
    cluster: Annotated[
        str,
        typer.Option(metavar="NAME", help="A host of the catalog.", autocompletion=complete_names("hosts")),
    ],
    hosts: Annotated[int, typer.Option(metavar="N", min=1, help="How many of them.")],
    seq_len: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens per sequence; 4096, or what the model can read."),
    ] = None,
    global_batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Sequences per step; about 4 million tokens if not given."),
    ] = None,
    framework: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The framework profile that plans are tried with: catalog frameworks lists them.",
            autocompletion=complete_names("frameworks"),
        ),
    ] = "megatron-core",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the scenario there.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Write the first plan that fits instead of the fastest.")
    ] = False,
) -> ExitCode:
    """Write a commented scenario with a good plan.

    It is the fastest plan that fits of all meshes, micro-batches, chunks and recomputations with ZeRO-1
    (FSDP under fsdp, torchtitan and llm-foundry), as simcluster search finds it. With --quick it is the
    first plan that fits by a simple rule: tensor parallelism grows up to the devices of a host, then the
    pipeline grows, then all layers are recomputed; the rest is data parallelism. Exit code 1, with the plan
    that came closest, if none fits.
    """
    from simcluster.cli.commands.init.init_scenario import write_init_scenario
    from simcluster.cli.output.scenario_target import Target
    from simcluster.tuning import SearchRequest

    target = Target(output, force)
    target.check()
    request = SearchRequest(model, cluster, hosts, seq_len, global_batch, framework)
    return write_init_scenario(request, target, quick=quick)
