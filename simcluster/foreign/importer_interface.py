"""The interface of importers, one for each file format of another tool, and what they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, TypeVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError, SimclusterError, nearest
from simcluster.foreign.reading import Flag, Untranslated, one_line
from simcluster.foreign.translation import Facts, Meaning
from simcluster.registry import kinds

Located = TypeVar("Located", bound=SimclusterError)

FAMILY = "simcluster.foreign.formats"

_SHOWN = 3
"""Settings that an error names."""


@dataclass(frozen=True)
class UserAdditions:
    """What a user gives in addition to a file, on the command line.

    ``model`` is a name of the catalog, or the path of a config.json. ``settings`` are (key path, YAML text)
    pairs for the scenario, ``variables`` values for what the file itself leaves open, such as shell
    variables. ``referenced`` gives the text of a file that the file names, ``located`` its absolute path;
    None where there is none.
    """

    cluster: str | None = None
    hosts: int | None = None
    model: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    referenced: Callable[[str], str | None] = lambda path: None
    located: Callable[[str], str | None] = lambda path: None


def model_key(named: str) -> str:
    """The key of the model section for what ``--model`` names: of the catalog, or a config.json."""
    return "hf" if named.endswith(".json") else "use"


@dataclass(frozen=True)
class Imported:
    """A scenario as plain data, with the settings that are not in it and other remarks.

    ``origins``: for key paths of the scenario the setting that they come from.
    """

    data: dict[str, Any]
    origins: Mapping[str, Flag]
    untranslated: tuple[Untranslated, ...]
    remarks: tuple[str, ...]

    def located(self, error: Located) -> Located:
        """The error with places in the foreign file instead of key paths that come from there."""
        return type(error)(*(with_origin(problem, self.origins) for problem in error.problems))


def with_origin(problem: Problem, origins: Mapping[str, Flag]) -> Problem:
    """A problem with the place of the setting that its key path comes from."""
    path = problem.path
    near = [
        known
        for known in origins
        if path == known or f"{path}.".startswith(f"{known}.") or known.startswith(f"{path}.")
    ]
    if problem.where or not path or not near:
        return problem
    flag = origins[max(near, key=lambda known: (known == path, path.startswith(known), len(known)))]
    said = f"{flag}: " if flag.text else ""
    return replace(problem, message=f"{said}{problem.message} ({path})", where=flag.where, path="")


class Importer(ABC):
    """A file format of another tool: one class in one file of ``foreign/formats``."""

    kind: ClassVar[str]
    """Its name on the command line."""

    title: ClassVar[str]
    """What its files are called."""

    takes_variables: ClassVar[bool] = False
    """Whether its files may leave variables open."""

    marks: ClassVar[tuple[str, ...]]
    """Settings by which its files are known: names, or beginnings of names that end with a dot."""

    certain: ClassVar[tuple[str, ...]] = ()
    """Settings that no file of another format has, although such a file may have some of its ``marks``."""

    def expect(self, flags: Iterable[Flag], name: str) -> None:
        """ScenarioError if no setting of the file called ``name`` is one of this format's ``marks``.

        Nor may one be a setting that another format alone has.
        """
        names = [flag.name for flag in flags]
        sections = tuple(mark for mark in self.marks if mark.endswith("."))
        if not self._of_another(names) and any(
            setting in self.marks or setting.startswith(sections) for setting in names
        ):
            return
        shown = ", ".join(f"'{one_line(setting, 40)}'" for setting in names[:_SHOWN])
        known = ", ".join(mark.rstrip(".") for mark in self.marks[:_SHOWN])
        message = f"this is not {self.title}: it has no setting by which one is known, such as {known}"
        message += f"; its first are {shown}" if shown else ""
        raise ScenarioError(Problem(message, where=name, hint=self._elsewhere(names)))

    def understood(
        self,
        settings: Sequence[Flag],
        name: str,
        given: UserAdditions,
        meaning_of: Callable[[str], Meaning | None],
    ) -> Facts:
        """The facts of the settings of the file ``name``; ScenarioError if it is not of this format."""
        facts = Facts(settings=dict(given.settings))
        self.expect(settings, name)
        facts.understand(settings, meaning_of)
        return facts

    def _of_another(self, names: list[str]) -> str:
        """The kind of the format that alone has one of these settings, if it is not this one."""
        others = {kind: other for kind, other in importers().items() if other is not type(self)}
        return next((kind for kind, other in others.items() if {*other.certain} & {*names}), "")

    def _elsewhere(self, names: list[str]) -> str:
        """What reads a file with these settings."""
        if kind := self._of_another(names):
            return f"simcluster import {kind} reads {importers()[kind].title}"
        if {"model_type", "architectures"} & {*names}:
            return "a config.json of Hugging Face is read by the scenario itself: model: {hf: config.json}"
        if {"simcluster", "parallel.mesh"} & {*names}:
            return "this is a scenario already: simcluster run FILE"
        if any(setting.startswith("weight_map.") for setting in names):
            return "this is the index of a checkpoint; the config.json beside it has the model's sizes"
        if {"ici_fsdp_parallelism", "per_device_batch_size", "max_target_length"} & {*names}:
            return f"this is a file of MaxText: {_TPU}"
        others = {kind: other for kind, other in importers().items() if other is not type(self)}
        known = {kind: sum(mark in names for mark in other.marks) for kind, other in others.items()}
        likely = max(known, key=lambda kind: known[kind])
        return f"simcluster import {likely} reads {others[likely].title}" if known[likely] else ""

    @abstractmethod
    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What a file says; ``name`` is shown in places. Raises ScenarioError if it is none of this format.

        Problems of single settings are collected in the facts.
        """


_REWARDS = "it trains with preferences or rewards, which no scenario can say yet"
_TPU = "it runs on TPUs, of which there are none in the catalog"
_OTHER_TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("verl", "openrlhf", "nemo-rl", "slime", "areal"), _REWARDS),
    **dict.fromkeys(
        ("trl", "transformers", "fastchat"), "'trainer' reads scripts and arguments of its Trainer"
    ),
    **dict.fromkeys(("composer", "mosaicml"), "'llm-foundry' reads its YAML"),
    **dict.fromkeys(("hf", "huggingface"), "a scenario reads a config.json itself: model: {hf: config.json}"),
    **dict.fromkeys(("fabric", "pytorch-lightning"), "'lightning' reads programs of Lightning and Fabric"),
    **dict.fromkeys(("neox", "gptneox"), "'gpt-neox' reads its configuration"),
    **dict.fromkeys(("swift", "ms-swift", "unsloth", "peft"), "'trainer' reads scripts that start it"),
    **dict.fromkeys(
        ("kubernetes", "k8s", "pytorchjob", "volcano", "slurm"),
        "'megatron' and 'trainer' read launches in manifests and batch scripts; the program says which",
    ),
    **dict.fromkeys(("maxtext", "t5x", "paxml", "easylm", "levanter"), _TPU),
}
"""What is said of tools that have no format of their own."""


def importers() -> dict[str, type[Importer]]:
    """All formats by kind."""
    return kinds(FAMILY, Importer)


def importer(kind: str) -> Importer:
    """The format called ``kind``; ScenarioError, with the nearest name, if there is none."""
    known = importers()
    kind = kind.replace("_", "-")
    if kind not in known:
        hint = _OTHER_TOOLS.get(kind.lower()) or nearest(kind, known)
        raise ScenarioError(f"unknown format '{kind}'", hint=hint)
    return known[kind]()
