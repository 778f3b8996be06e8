"""One file adds one thing: kinds that an installed package adds, which nothing else knows."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.support.installed import installed
from tests.support.scenario_texts import SMALL


@pytest.fixture
def added(tmp_path):
    """Adds a module to a family of kinds, and gives what runs a command line where it is installed."""
    (tmp_path / "small.yaml").write_text(SMALL)
    with ExitStack() as processes:
        yield lambda family, source: processes.enter_context(installed(tmp_path, family, source))


def test_a_report_format(added, tmp_path):
    simcluster = added(
        "simcluster.report.formats",
        """
        from simcluster.report import Renderer

        class Figures(Renderer):
            kind = "figures"
            suffix = ".csv"

            def render(self, run, ranks=None):
                yield b"step_time_s\\n"
                yield f"{run.documents['summary']['step_time_s']}\\n".encode()
        """,
    )
    ended = simcluster("run", "small.yaml", "--out", "out")
    assert (ended.returncode, ended.stderr) == (0, "written: out\n")
    step = json.loads((tmp_path / "out" / "result.json").read_text())["step_time_s"]
    assert (tmp_path / "out" / "figures.csv").read_text() == f"step_time_s\n{step}\n"


def test_an_optimizer_rule(added, tmp_path):
    simcluster = added(
        "simcluster.model.operators",
        """
        from dataclasses import dataclass

        import numpy as np

        from simcluster.model import Update

        @dataclass(frozen=True, slots=True)
        class Lion(Update):
            kind = "lion"
            states = ("moment",)

            def step(self, weights, grad, states, step):
                change = self.beta1 * states[0] + (1 - self.beta1) * grad
                moment = self.beta2 * states[0] + (1 - self.beta2) * grad
                decayed = weights * (1 - self.learning_rate * self.weight_decay)
                return decayed - self.learning_rate * np.tanh(change), moment
        """,
    )
    chosen = ("--set", "training.optimizer={kind: lion, states: bf16, weight_decay: 0.1}")
    ended = simcluster("verify", "small.yaml", *chosen)
    assert ended.returncode == 0, ended.stderr
    assert "lion" in simcluster("run", "small.yaml", *chosen).stdout
    assert "did you mean 'lion'" in simcluster("run", "small.yaml", "--set", "training.optimizer=lyon").stderr


@pytest.mark.thorough
def test_a_tuning_knob(added):
    simcluster = added(
        "simcluster.tuning.knobs",
        """
        from simcluster.tuning import Knob

        class SequenceLengthKnob(Knob):
            kind = "sequence length"
            of_training = True

            def turns(self, scenario, plan):
                length = plan["seq_len"]
                while length > 1:
                    length //= 2
                    yield (("training.seq_len", str(length)),)
        """,
    )
    roomy = json.loads(simcluster("explain", "small.yaml", "--json").stdout)
    headroom = f"run.headroom={roomy['left'] + 1} B"
    ended = simcluster("explain", "small.yaml", "--json", "--set", headroom)
    changes = {tuple(change["kinds"]): change for change in json.loads(ended.stdout)["changes"]}
    assert changes["sequence length",]["fits"], ended.stderr
    assert changes["sequence length",]["set"][0].startswith("training.seq_len=")


@pytest.mark.thorough
def test_a_knob_about_speed(added):
    simcluster = added(
        "simcluster.tuning.knobs",
        """
        from simcluster.tuning import Knob, KnobPurpose

        class ShorterSequencesKnob(Knob):
            kind = "shorter sequences"
            serves = frozenset({KnobPurpose.SPEED})
            source = "an installed package"
            of_training = True

            def turns(self, scenario, plan):
                yield (("training.seq_len", str(plan["seq_len"] // 2)),)

            def reason(self, present):
                return f"a step takes {present.step:.3g} s"
        """,
    )
    ended = simcluster(
        "advise",
        "small.yaml",
        "--json",
        "--jobs",
        "1",
        "--set",
        "parallel={mesh: {data: 8}, optimizer_sharding: {zero: 1}}",
    )
    tips = {tip["kind"]: tip for tip in json.loads(ended.stdout)["tips"]}
    assert tips["shorter sequences"]["gains"], ended.stderr
    assert tips["shorter sequences"]["why"].startswith("a step takes")


@pytest.mark.thorough
def test_a_framework_switch(added, tmp_path):
    simcluster = added(
        "simcluster.plan.switches",
        """
        from functools import partial

        from simcluster.plan.pass_list import Pass
        from simcluster.plan.switches import FrameworkSwitch

        def unchanged(graph):
            return graph

        class Launches(FrameworkSwitch, kind="launches"):
            '''Whether operators are launched together.'''

            TOGETHER = "together", "operators launched together"
            ALONE = "alone", "each a kernel", {"reduce_after_backward": True}, {"fuse": {"pairs": ()}}

            def passes(self, passes):
                yield from super().passes(passes)
                if self is Launches.ALONE:
                    yield Pass("count_launches", partial(unchanged))
        """,
    )
    alone = ("--set", "framework={use: ideal, launches: alone}")
    ended = simcluster("run", "small.yaml", "--out", "alone", *alone)
    simcluster("run", "small.yaml", "--out", "usual")
    own, usual = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("alone", "usual"))
    assert own["step_time_s"] > usual["step_time_s"], ended.stderr
    assert "each a kernel" in ended.stdout
    assert simcluster("layouts", "small.yaml", "--after", "count_launches", *alone).returncode == 0
    assert (
        "'together' or 'alone'" in simcluster("run", "small.yaml", "--set", "framework.launches=apart").stderr
    )
    schema = json.loads(simcluster("schema").stdout)
    described = [
        each["properties"]["launches"] for each in schemas(schema) if "launches" in each["properties"]
    ]
    assert {each["description"] for each in described} == {"Whether operators are launched together."}


def schemas(value):
    """The parts of a JSON schema that have properties."""
    if isinstance(value, dict):
        if "properties" in value:
            yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from schemas(part)
