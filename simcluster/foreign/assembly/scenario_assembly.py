"""From the facts of a foreign file to a scenario as plain data: devices, mesh, batches, and choices.

Facts that are not named by a key path:

    hosts, devices_per_host, world     what the launch says about machines
    task                               "inference" where the file does not train; else nothing
    prompts                            prompts that every data-parallel rank answers together
    tensor, pipeline, context, data    sizes of the parallel axes
    expert, expert_tensor              ranks that share experts, and that split each of them
    chunks, layers_per_chunk           virtual pipeline stages of each device
    first_layers, last_layers          layers of the first and the last stage
    accumulation                       micro-batches per step on each data-parallel rank
    sequence_parallel                  activations between tensor-parallel parts are split over that axis
    vocabulary_multiple                what the vocabulary is padded to, per tensor rank
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simcluster.cluster import ClusterSpec
from simcluster.document import Document, merged_data, validate_data
from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.assembly.accepted_keys import (
    in_schema_order,
    schema_accepts,
    schema_has,
    set_path,
)
from simcluster.foreign.assembly.inference_runs import state_inference
from simcluster.foreign.assembly.mesh_axes import state_mesh
from simcluster.foreign.assembly.model_families import ALWAYS, adapt_to_family
from simcluster.foreign.assembly.pipeline_stages import state_pipeline
from simcluster.foreign.importer_interface import Imported, UserAdditions, model_key, with_origin
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Alternatives, Fact, Facts, user_value_for
from simcluster.plan import FrameworkSpec
from simcluster.scenario import ScenarioSpec

_NEEDED = {
    "model.layers": "the number of layers",
    "model.hidden": "the hidden size",
    "model.heads": "the number of attention heads",
    "model.vocab": "the vocabulary size",
    "training.micro_batch": "the micro-batch",
    "training.seq_len": "the sequence length",
    "training.global_batch": "the global batch",
    "inference.batch": "how many prompts are answered together",
    "inference.prompt": "how many tokens a prompt has",
    "inference.tokens": "how many tokens are generated after a prompt",
}
_DECODERS = ("model.layers", "model.vocab")
"""Sizes that models of other families may not have."""

_EXAMPLES = {
    "model.vocab": 128256,
    "training.seq_len": 4096,
    "training.micro_batch": 1,
    "inference.batch": 32,
    "inference.prompt": 2048,
    "inference.tokens": 256,
}


def assemble_scenario(facts: Facts, name: str, given: UserAdditions) -> Imported:
    """The scenario that the facts make, called ``name``.

    Raises ScenarioError with every problem: mistakes of the file, what it leaves open and nobody gave, sizes
    that do not go together; places are those of the file.
    """
    scenario = _Assembly(facts, given)
    scenario.put("simcluster", 1)
    scenario.put("name", name)
    scenario.model()
    settings = _settings(given)
    devices = scenario.cluster()
    if devices:
        hosts = scenario.data.get("cluster", {}).get("hosts", 0) if given.hosts is None else 0
        scenario.ways = state_mesh(facts, scenario.put, devices, hosts)
    if facts.get("task") == "inference":
        state_inference(facts, scenario.ways)
    else:
        scenario.batch()
    if given.model is not None:
        adapt_to_family(facts, given.model)
    scenario.choices()
    state_pipeline(facts, scenario.put)
    scenario.vocabulary()
    scenario.account()
    data = merged_data(scenario.data, settings)
    # What could not be read is missing too; saying that as well would not help.
    unread = any(problem.where for problem in facts.problems)
    problems = [*facts.problems, *([] if unread else _missing(data, facts.get("task", "training")))]
    if problems:
        raise ScenarioError(*problems)
    data = in_schema_order(data)
    for path, text in given.settings:
        scenario.origins[path] = Flag("--set", text, f"--set {path}={text}", "")
    try:
        validate_data(data, ScenarioSpec)
    except ScenarioError as error:
        raise ScenarioError(*(with_origin(problem, scenario.origins) for problem in error.problems)) from None
    return Imported(data, scenario.origins, tuple(facts.untranslated), tuple(facts.remarks))


class _Assembly:
    """The scenario while it is put together."""

    def __init__(self, facts: Facts, given: UserAdditions) -> None:
        self.facts = facts
        self.given = given
        self.data: dict[str, Any] = {}
        self.origins: dict[str, Flag] = {}
        self.ways = 0

    def put(self, path: str, value: Any, flag: Flag | None = None) -> None:
        """Writes a value, and remembers the setting it came from."""
        set_path(self.data, path, value)
        if flag is not None:
            self.origins[path] = flag

    def model(self) -> None:
        """A catalog model where one is named; what the file says besides replaces its dimensions."""
        if self.given.model is not None:
            key, value = model_key(self.given.model), self.given.model
            self.put(f"model.{key}", value, Flag("--model", None, f"--model {value}"))
        elif "model.family" in self.facts.known:
            family = self.facts.known.pop("model.family")
            self.put("model.family", family.value, family.flag)

    def cluster(self) -> int:
        """Writes the cluster and gives its number of devices; 0, with a problem, if it is not known."""
        facts, given = self.facts, self.given
        if given.cluster is None:
            facts.problems.append(
                Problem(
                    "the file does not say on which machines it runs",
                    hint="give --cluster NAME, such as dgx-h100; simcluster catalog hosts lists them",
                )
            )
            return 0
        self.put("cluster.use", given.cluster, Flag("--cluster", None, f"--cluster {given.cluster}"))
        try:
            per_host = validate_data({"use": given.cluster, "hosts": 1}, ClusterSpec).build().num_devices
        except ScenarioError as error:
            message, hint = error.problems[0].message, error.problems[0].hint
            facts.problems.append(Problem(f"--cluster {given.cluster}: {message}", hint=hint))
            return 0
        world, source = self._world()
        hosts, flag = given.hosts, Flag("--hosts", given.hosts, f"--hosts {given.hosts}")
        if hosts is None and world:
            hosts, left = divmod(world, per_host)
            flag = source
            if left:
                facts.wrong(
                    source,
                    f"{world} devices / {per_host} per {given.cluster} = {world / per_host:g} hosts",
                    "give another --cluster, or --hosts",
                )
                return 0
            said = facts.get("hosts")
            if said is not None and said != hosts:
                facts.remark(
                    f"{world} devices are {hosts} hosts of {given.cluster}, which has {per_host} each"
                )
        elif hosts is None and facts.get("hosts"):
            hosts, flag = facts.get("hosts"), facts.flag("hosts")
        elif hosts is None:
            facts.problems.append(
                Problem("the file does not say on how many hosts it runs", hint="give --hosts 16")
            )
            return 0
        elif world and hosts * per_host != world:
            facts.remark(
                f"--hosts {hosts}: {hosts} x {per_host} = {hosts * per_host} devices; the file has {world}"
            )
        self.put("cluster.hosts", hosts, flag)
        return hosts * per_host

    def _world(self) -> tuple[int, Flag]:
        """How many processes the file starts, or 0, and where it says so."""
        facts = self.facts
        if facts.get("world"):
            return facts.get("world"), facts.flag("world")
        if facts.get("devices_per_host") and facts.get("hosts"):
            return facts.get("devices_per_host") * facts.get("hosts"), facts.flag("hosts")
        if facts.get("devices_per_host") and self.given.hosts is None:
            return 0, facts.flag("devices_per_host")
        if facts.get("data"):
            return math.prod(facts.get(axis, 1) for axis in _AXES), facts.flag("data")
        return 0, Flag("", None, "")

    def batch(self) -> None:
        """Global batch, micro-batch and accumulation: two of them give the third, three are checked."""
        facts = self.facts
        micro, total = self._samples("training.micro_batch"), self._samples("training.global_batch")
        steps = facts.get("accumulation")
        if not self.ways:
            return
        if micro and total and steps and micro * steps * self.ways != total:
            facts.wrong(
                facts.flag("training.global_batch"),
                f"{micro} per micro-batch x {steps} micro-batches x {self.ways} data-parallel ways = "
                f"{micro * steps * self.ways}",
                "change one of them, or --hosts",
            )
        elif micro and not total:
            total = micro * (steps or 1) * self.ways
            text = f"{micro} x {steps or 1} micro-batches x {self.ways} data-parallel ways"
            facts.default("training.global_batch", total, text)
            facts.remark(f"global batch: {text} = {total:,}")
        elif total and steps and not micro:
            size, left = divmod(total, steps * self.ways)
            if left:
                message = (
                    f"{total} / ({steps} micro-batches x {self.ways} data-parallel ways) is not an integer"
                )
                facts.wrong(facts.flag("training.global_batch"), message)
                return
            text = f"{total} / ({steps} micro-batches x {self.ways} ways)"
            facts.default("training.micro_batch", size, text)

    def _samples(self, path: str) -> int | None:
        """A batch size of the file, or of ``--set`` where the file has none."""
        if path not in self.facts.known and (given := user_value_for(path, self.facts.settings)):
            return given[1] if type(given[1]) is int and given[1] > 0 else None
        size: int | None = self.facts.get(path)
        return size

    def choices(self) -> None:
        """Every fact that is a key path, in the truest form the schema accepts; the rest is listed."""
        for path, fact in self.facts.known.items():
            if "." not in path and path != "framework":
                continue
            if isinstance(fact.value, Alternatives):
                self._choose(path, fact)
            elif _can_say(path, fact.value):
                self.put(path, fact.value, fact.flag)
            elif fact.value is False:
                self.facts.effectless(fact.flag, "off")
            else:
                self.facts.unsupported(fact.flag, f"a scenario cannot say {path}: {fact.value} yet")

    def _choose(self, path: str, fact: Fact) -> None:
        choice: Alternatives = fact.value
        for index, candidate in enumerate(choice.candidates):
            if candidate is not None and not schema_accepts(path, candidate):
                continue
            if index:
                self.facts.unsupported(fact.flag, choice.lost)
            if candidate is not None:
                doubt = f"{fact.flag.text} - CHANGES THE RESULT" if index else fact.flag.text
                self.put(path, candidate, replace(fact.flag, text=doubt))
            return
        self.facts.unsupported(fact.flag, choice.lost)

    def account(self) -> None:
        """Lists every setting of the file that has neither a line nor a place in a list yet."""
        listed = {*self.origins.values(), *(entry.flag for entry in self.facts.untranslated)}
        for flag in self.facts.flags:
            if flag in listed:
                continue
            if flag.value is None or flag.value is False:
                self.facts.effectless(flag, "off")
            else:
                self.facts.absorb(flag)

    def vocabulary(self) -> None:
        """Writes the padded vocabulary where the framework profile would pad to something else."""
        facts = self.facts
        multiple, vocab = facts.get("vocabulary_multiple"), facts.get("model.vocab")
        profile = self.data.get("framework", "ideal")
        name = str(profile["use"] if isinstance(profile, dict) else profile)
        if not (multiple and vocab and self.ways and name in FrameworkSpec.entries()):
            return
        tensor = facts.get("tensor", 1)
        here = _padded(vocab, FrameworkSpec.load(name).vocabulary_multiple * tensor)
        there = _padded(vocab, multiple * tensor)
        if here == there:
            return
        flag = facts.flag("vocabulary_multiple")
        if _padded(there, FrameworkSpec.load(name).vocabulary_multiple * tensor) == there:
            self.put("model.vocab", there, flag)
            facts.remark(f"vocabulary {vocab:,} padded to {there:,} by {flag}; parameter counts include that")
        else:
            self.put("framework.use", name)
            self.put("framework.vocabulary_multiple", multiple, flag)


_AXES = ("data", "pipeline", "context", "tensor")


def _can_say(path: str, value: Any) -> bool:
    """Whether a scenario has a place for a value.

    For sizes, sections of them and switches of models the key is enough, since whether they are possible is
    checked with all others; a word or another switch may not exist yet.
    """
    if isinstance(value, Mapping):
        return all(schema_has(f"{path}.{key}") for key in value)
    size = isinstance(value, (int, float)) and not isinstance(value, bool)
    if size or (isinstance(value, bool) and path.startswith("model.")):
        return schema_has(path)
    return schema_accepts(path, value)


def _padded(vocab: int, multiple: int) -> int:
    return math.ceil(vocab / multiple) * multiple


def _settings(given: UserAdditions) -> dict[str, Any]:
    """The ``--set`` options as nested data."""
    document = Document.parse("{}", "--set")
    for path, text in given.settings:
        document = document.with_value(path, text)
    return document.data


def _missing(data: Mapping[str, Any], task: str) -> list[Problem]:
    """What a scenario of this task needs and nobody said."""
    model = data.get("model")
    named = isinstance(model, Mapping) and bool(model.keys() & {"use", "hf", "onnx"})
    problems = []
    if not named and not (isinstance(model, Mapping) and model.keys() & {"layers", "hidden", "heads"}):
        hint = "give --model llama3-70b, or its dimensions with --set model.layers=80 and so on"
        problems.append(Problem("the file does not say which model is trained", hint=hint))
        named = True
    for path, noun in _NEEDED.items():
        section, key = path.split(".")
        inner = data.get(section)
        if section not in ("model", task) or (section == "model" and named):
            continue
        if path == "training.global_batch" and "hosts" not in data.get("cluster", {}):
            continue  # it follows from the micro-batch once ranks are known
        if path in _DECODERS and isinstance(model, Mapping) and model.get("family") in ALWAYS:
            continue  # the family's own sizes are checked with it
        if not isinstance(inner, Mapping) or key not in inner:
            example = f"give --set {path}={_EXAMPLES.get(path, 'NUMBER')}"
            problems.append(Problem(f"the file does not say {noun}", hint=example))
    return problems
