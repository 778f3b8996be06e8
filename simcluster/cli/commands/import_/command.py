"""``simcluster import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster import megatron pretrain_gpt.sh --cluster dgx-h100 -o gpt.yaml",
    "simcluster import megatron run.sh --cluster dgx-a100 --hosts 16 --var TP_SIZE=8",
    "simcluster import deepspeed ds_config.json --model llama2-7b --cluster dgx-a100 \\",
    "    --hosts 4 --set training.seq_len=4096 -o llama.yaml",
    "simcluster import mindformers pretrain_llama3_8b.yaml --cluster atlas-800t-a2",
    "simcluster import nemo megatron_gpt_config.yaml --cluster dgx-h100 | less",
    "simcluster import torchtitan llama3_8b.toml --cluster dgx-h100 --hosts 8",
    "simcluster import llama-factory llama3_lora_sft.yaml --cluster dgx-h100 --hosts 1",
)

FORMATS = (
    "accelerate",
    "axolotl",
    "deepspeed",
    "gpt-neox",
    "lightning",
    "litgpt",
    "llama-factory",
    "llm-foundry",
    "megatron",
    "mindformers",
    "nanogpt",
    "nanotron",
    "nemo",
    "torchtitan",
    "torchtune",
    "trainer",
)
"""The formats of ``simcluster.foreign.formats``."""


def _formats(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


def import_(
    format: Annotated[
        str,
        typer.Argument(metavar="FORMAT", autocompletion=_formats, help=f"One of {', '.join(FORMATS)}."),
    ],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to translate.")],
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="The hosts it runs on, from the catalog.")
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many, if the file does not say.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The model, if the file has none: of the catalog, or a config.json."
        ),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A shell variable that the script does not set."),
    ] = None,
    settings: Settings = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the scenario there.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> ExitCode:
    """Translate another tool's file into a scenario.

    The scenario goes to standard output, or to the file given with -o. Every setting that is not in it is
    listed on standard error and in its comments: first those that change the result, last those that change
    nothing. What no scenario can say (linear attention, Mamba, QLoRA) is refused. Scripts are read, never
    executed.
    """
    from simcluster.cli.commands.import_.file_import import import_file
    from simcluster.cli.output.scenario_target import Target
    from simcluster.document import real_path
    from simcluster.errors import ScenarioError
    from simcluster.foreign import UserAdditions

    given = UserAdditions(cluster, hosts, model, tuple(changes(settings)), _variables(variables or ()))
    target = Target(output, force)
    if output is not None and real_path(file) == real_path(output):
        raise ScenarioError(f"-o {output}: this would replace the file that is read")
    target.check()
    return import_file(format, file, given, target)


def _variables(options: list[str] | tuple[()]) -> dict[str, str]:
    """The pairs of ``--var`` options; ScenarioError for one without ``=``."""
    from simcluster.errors import ScenarioError

    variables = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise ScenarioError(f"--var {option}: expected NAME=VALUE, such as TP_SIZE=8")
        variables[name] = value
    return variables
