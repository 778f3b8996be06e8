"""Commands on scenarios that answer prompts."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from tests.support.marked_tables import ROOT
from tests.support.scenario_texts import SMALL, but

ANSWERING = but(
    "training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}",
    "inference: {batch: 8, micro_batch: 2, prompt: 16, tokens: 5, precision: fp32}",
)


@pytest.fixture
def answering(here):
    (here / "answering.yaml").write_text(ANSWERING)
    return "answering.yaml"


@pytest.mark.parametrize("command", ["run", "lint", "verify", "explain", "layouts"])
def test_commands_know_inference(simcluster, answering, command):
    code, out, err = simcluster(command, answering)
    assert (code, err) == (0, "")
    assert "small" in out or command == "layouts"


def test_weights_are_laid_out(simcluster, answering):
    code, out, err = simcluster("layouts", answering, "--predict")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "device matrix of a stage: (2, 2)"
    found = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[2:]}
    assert found["layers.0..1.mlp.up.gate.weight"] == "0 fp32 (64, 128) (64, 64) (-1, 0)"
    assert found["layers.2..3.attention.out.weight"] == "1 fp32 (4, 2, 8, 64) (2, 2, 8, 64) (0, -1, -1, -1)"


def test_weights_of_a_training_are_not(simcluster, small):
    code, out, err = simcluster("layouts", small, "--predict")
    assert (code, out) == (2, "")
    assert err.startswith("small.yaml:6:1: the layouts of weights are predicted for inference")


def test_weights_are_told_by_themselves(simcluster, answering):
    code, _, err = simcluster("layouts", answering, "--predict", "--tensor-maps")
    assert code == 2
    assert "leave the other options out" in " ".join(err.split())


def test_strategies_that_are_pasted_give_the_same_program(simcluster, answering, here):
    out = simcluster("layouts", answering, "--as-strategies").out
    assert "decode" not in out
    (here / "pasted.yaml").write_text(ANSWERING + "  strategies:\n" + out)
    digests = {build_scenario(Scenario.load(name)).program.digest() for name in (answering, "pasted.yaml")}
    assert len(digests) == 1


def test_bounds_on_answers(simcluster, answering, here):
    (here / "bounded.yaml").write_text(ANSWERING + "expect: {tpot: {max: 10}, ttft: {max: 1.0e-9}}\n")
    code, out, err = simcluster("run", "bounded.yaml")
    assert code == 1
    assert "ttft is" in out + err
    assert "tpot is" not in out + err
    (here / "wrong.yaml").write_text(SMALL + "expect: {tpot: {max: 10}}\n")
    code, _, err = simcluster("run", "wrong.yaml")
    assert code == 2
    assert "only an inference has a tpot" in err


def test_what_would_make_caches_fit_is_tried(simcluster, here):
    """Fewer sequences at a time, smaller caches, weights on the host; nothing that only training has."""
    crowded = ANSWERING.replace("prompt: 16", "prompt: 4096").replace(
        "use: cpu-server", "host: {use: dgx-h100, devices: 2, device: {memory: 690 MiB}}"
    )
    (here / "crowded.yaml").write_text(crowded)
    code, out, err = simcluster("explain", "crowded.yaml")
    assert (code, err) == (1, "")
    assert "the answer would take" in out
    for tried in ("inference.cache=fp8", "inference.micro_batch=1", "parallel.offload.parameters=host"):
        assert tried in out
    for training in ("recompute", "optimizer", "activations=host"):
        assert training not in out


def test_answers_are_compared_by_their_own_figures(simcluster, answering, small, here):
    (here / "other.yaml").write_text(ANSWERING.replace("tokens: 5", "tokens: 9").replace("small", "other"))
    out = simcluster("compare", answering, "other.yaml").out
    assert "(answer " in out
    for figure in ("time to the first token", "time per further token", "MBU of decode steps"):
        assert figure in out
    assert "HFU" not in out
    mixed = simcluster("compare", small, "other.yaml").out
    assert "some train, others answer prompts" in mixed
    assert "HFU" in mixed


def test_the_guide_shows_what_is_printed(simcluster):
    """Its figures were those of an older release."""
    guide = (ROOT / "simcluster" / "guide" / "inference.md").read_text()
    block = guide.split("$ simcluster run ", 1)[1].split("```", 1)[0]
    scenario, shown = block.split("\n...\n", 1)
    _, out, _ = simcluster("run", str(ROOT / scenario))
    assert " ".join(shown.removesuffix("...\n").split()) in " ".join(out.split())
