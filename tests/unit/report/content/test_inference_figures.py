"""What reports say of an inference."""

from __future__ import annotations

import pytest

from simcluster import units
from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS
from simcluster.report import result_html, summary_text
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100


def answering(tokens, **others):
    trained = h100({"pipeline": 2, "data": 2, "tensor": 2}).spec.model_dump(mode="json", exclude_unset=True)
    data = {name: each for name, each in trained.items() if name != "training"}
    data["inference"] = {"batch": 8, "micro_batch": 2, "prompt": 128, "tokens": tokens, **others}
    return Scenario.of(data)


@pytest.fixture(scope="module")
def answer():
    return simulate(answering(33))


def test_the_summary_says_when_tokens_come(answer):
    text, found = summary_text(answer, width=120), answer.documents["summary"]
    assert f"{units.seconds(found['ttft_s'])} to the first token (TTFT)" in text
    assert f"{units.seconds(found['tpot_s'])} per further token (TPOT)" in text
    assert f"{units.count(found['tokens_per_s'])} tokens/s" in text
    assert "8 prompts of 128 tokens, 33 generated after each = 2 data-parallel ways x 2 micro-batches" in text
    assert "bf16, bf16 KV cache" in text
    assert "5 of 32 decode steps simulated, others interpolated" in text
    assert "Where prefill and 5 decode steps go" in text
    assert "forward only, 2 x 4 layers" in text
    for wrong in ("gradients", "optimizer", "Step time"):
        assert wrong not in text


@pytest.mark.parametrize("width", [64, 80, 100, 120])
def test_no_line_is_wider_than_the_screen(answer, width):
    lines = summary_text(answer, width=width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert width < 80 or len(lines) <= 45


def test_all_steps_and_none_are_told_so():
    assert "2 of 2 decode steps simulated\n" in summary_text(simulate(answering(3)), width=120)
    text = summary_text(simulate(answering(1)), width=120)
    assert "decode" not in text
    assert "Where the prefill goes" in text


def test_the_page_says_the_same(answer):
    page, found = result_html(answer), answer.documents["summary"]
    for value in (units.seconds(found["ttft_s"]), units.seconds(found["tpot_s"])):
        assert f">{value}</div>" in page
    assert "KV cache" in page
    assert "MFU (HFU" not in page


def test_only_an_inference_has_the_figures_of_an_answer(answer, run):
    assert set(INFERENCE_METRICS) <= set(answer.documents["summary"])
    assert not set(INFERENCE_METRICS) & set(run.documents["summary"])
