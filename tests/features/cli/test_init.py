"""``simcluster init``: a scenario that fits, explained line by line, or the nearest miss."""

from __future__ import annotations

import pytest

from simcluster.document import Document
from simcluster.scenario import Scenario
from simcluster.simulation import simulate

BEST = ("init", "--model", "gpt3-125m", "--cluster", "dgx-a100", "--hosts", "1", "--global-batch", "16")
SMALL = (*BEST, "--quick")


def test_what_is_written_fits(simcluster, here):
    code, out, err = simcluster(*SMALL, "-o", "plan.yaml")
    assert (code, out) == (0, "")
    assert "tried data 8: fits" in err
    run = simulate(Scenario.load("plan.yaml"))
    assert run.documents["summary"]["fits"]
    assert simcluster("lint", "plan.yaml").code == 0


@pytest.mark.thorough
def test_the_plan_is_no_slower_than_the_first_that_fits(simcluster, here):
    assert simcluster(*SMALL, "-o", "first.yaml").code == 0
    code, _, err = simcluster(*BEST, "-o", "best.yaml")
    assert code == 0
    assert "Proven: no other plan of the space can be better" in err
    first, best = (simulate(Scenario.load(name)).documents["summary"] for name in ("first.yaml", "best.yaml"))
    assert best["fits"]
    assert best["step_time_s"] <= first["step_time_s"]
    text = (here / "best.yaml").read_text()
    assert "Other plans, and why they are not better" in text
    body = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("  # " in line for line in body)


def test_a_framework_may_be_chosen(simcluster, here):
    code, out, _ = simcluster(*SMALL, "--framework", "ideal")
    assert code == 0
    assert "ideal is a bound" in " ".join(out.replace("#", " ").split())
    code, out, _ = simcluster(*SMALL)
    assert code == 0
    assert Document.parse(out).data["framework"] == "megatron-core"
    assert "a bound" not in out and "2.00 GiB must stay free" in " ".join(out.replace("#", " ").split())
    code, _, err = simcluster(*SMALL, "--framework", "megatron-cor")
    assert code == 2
    assert "--framework megatron-cor: unknown framework" in err and "megatron-core" in err


def test_every_line_is_explained(simcluster, here):
    code, out, _ = simcluster(*SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "# yaml-language-server: $schema=./scenario.schema.json"
    body = [line for line in lines if line and not line.startswith("#")]
    assert body
    assert all("  # " in line for line in body)
    assert Document.parse(out).data["training"]["global_batch"] == 16
    assert simcluster(*SMALL).out == out


def test_the_ranks_that_share_experts_train_on_sequences_of_their_own(simcluster, here):
    code, out, _ = simcluster(
        *(
            "init",
            "--model",
            "deepseek-v2-lite",
            "--cluster",
            "dgx-h100",
            "--hosts",
            "1",
            "--global-batch",
            "16",
            "--quick",
        )
    )
    assert code == 0
    assert Document.parse(out).data["parallel"]["mesh"] == {"data": 1, "expert": 8}
    assert "8 ranks x 2 micro-batches" in out
    assert all("  # " in line for line in out.splitlines() if line and not line.startswith("#"))


def test_sizes_may_be_chosen(simcluster, here):
    data = Document.parse(simcluster(*SMALL, "--seq-len", "512").out).data
    assert data["training"]["seq_len"] == 512


def test_a_file_is_never_replaced_unasked(simcluster, here):
    (here / "plan.yaml").write_text("mine")
    code, _, err = simcluster(*SMALL, "-o", "plan.yaml")
    assert code == 2
    assert "--force replaces it" in err
    assert (here / "plan.yaml").read_text() == "mine"
    assert simcluster(*SMALL, "-o", "plan.yaml", "--force").code == 0


def test_the_nearest_miss(simcluster, here):
    code, out, err = simcluster(
        "init", "--model", "llama3-70b", "--cluster", "dgx-a100", "--hosts", "1", "-o", "plan.yaml", "--quick"
    )
    assert (code, out) == (1, "")
    assert "no plan fits; the nearest miss is" in err
    assert "per device" in err
    assert not (here / "plan.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "gpt3-125", "--cluster", "dgx-a100", "--hosts", "1"), "did you mean 'gpt3-125m'?"),
        (("--model", "gpt3-125m", "--cluster", "dgx", "--hosts", "1"), "--cluster dgx: unknown host 'dgx'"),
        (("--model", "gpt3-125m", "--cluster", "dgx-a100", "--hosts", "0"), "--hosts"),
        (
            ("--model", "gpt3-125m", "--cluster", "dgx-a100", "--hosts", "2", "--seq-len", "4096"),
            "2048 positions",
        ),
        (
            ("--model", "gpt3-125m", "--cluster", "dgx-a100", "--hosts", "13", "--global-batch", "7"),
            "give a multiple of",
        ),
        (("--model", "gpt3-125m", "--cluster", "dgx-a100"), "Missing option '--hosts'"),
    ],
)
def test_what_is_refused(simcluster, here, arguments, message):
    code, out, err = simcluster("init", *arguments)
    assert (code, out) == (2, "")
    assert message in err
