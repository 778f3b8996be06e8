"""The attention model: closed forms, and the published figures of FlashAttention."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.cluster import ClusterSpec, load_device
from simcluster.cluster.device.attention import AttentionModel
from simcluster.cluster.device.rates import EfficiencyCurve
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.work import DType, Kernel, Work

MODEL = AttentionModel(
    units=10,
    tile=128,
    forward=((64, EfficiencyCurve(((512.0, 0.2), (2048.0, 0.4)))), (256, EfficiencyCurve(((512.0, 0.6),)))),
    causal=0.5,
    backward=0.8,
)


def seconds(b=1, h=10, sq=1280, skv=2048, d=64, causal=False, backward=False, flops=10**9):
    return MODEL.seconds(b, h, sq, skv, d, causal, backward, flops, 1e12)


def test_whole_waves_run_at_the_share_of_their_length_and_head_dim():
    assert seconds() == pytest.approx(1e-3 / 0.4)
    assert seconds(skv=512) == pytest.approx(1e-3 / 0.2)
    assert seconds(skv=1024) == pytest.approx(1e-3 / 0.3)
    assert seconds(d=256) == pytest.approx(1e-3 / 0.6)
    assert seconds(d=128) == pytest.approx(1e-3 / 0.5)
    assert seconds(d=32) == seconds(d=64)


def test_the_backward_kernel_is_slower_per_flop():
    assert seconds(backward=True) == pytest.approx(seconds() / 0.8)


def test_unmasked_blocks_fill_whole_waves():
    # 11 blocks of equal work on 10 cores take two waves: 20 places for 11 blocks.
    assert seconds(h=11, sq=100) == pytest.approx(1e-3 / 0.4 * 20 / 11)
    assert seconds(h=1, sq=100) == pytest.approx(1e-3 / 0.4 * 10)


def test_causal_blocks_end_half_a_longest_block_apart_and_compute_the_diagonal_whole():
    mean = 1e-3 / (0.4 * 0.5)
    assert seconds(causal=True, h=1000) == pytest.approx(mean * (1 + 128 / 2048 + 10 / 10_000))
    # With fewer blocks than cores the longest one decides: twice the mean.
    assert seconds(causal=True, h=4, sq=100) == pytest.approx(2 * mean * 10 / 4)


def test_slices_of_queries_behind_others_take_as_long_as_all_at_once_on_a_busy_device():
    def sliced(count, skv=8192):
        size = skv // count
        pairs = [(2 * index + 1) * size * size for index in range(count)]
        return [
            MODEL.seconds(
                1, 10_000, size, size * (index + 1), 64, True, False, each * 1000, 1e12, before=size * index
            )
            for index, each in enumerate(pairs)
        ]

    (whole,) = sliced(1)
    for count in (2, 8):
        parts = sliced(count)
        assert parts == sorted(parts)
        # The squares of earlier keys run as fast as without a mask: twice as fast here.
        masked = 1 / count
        assert sum(parts) == pytest.approx(whole * (masked + (1 - masked) / 2), rel=0.03)


def test_a_slice_behind_many_takes_what_unmasked_queries_take():
    far = MODEL.seconds(1, 1000, 1280, 2**20, 64, True, False, 10**12, 1e12, before=2**20 - 1280)
    assert far == pytest.approx(seconds(h=1000, skv=2**20, flops=10**12), rel=0.01)


def test_nothing_to_do_takes_no_time():
    assert seconds(b=0, flops=0) == 0


def test_kernels_of_earlier_releases_are_slower_where_that_is_known():
    speeds = EfficiencyCurve(((64, 0.25), (256, 0.75))), EfficiencyCurve(((1, 0.5),))
    device = replace(MODEL, earlier=((1, speeds[0]), (2, speeds[1])))
    times = [device.seconds(1, 10, 1280, 2048, 64, False, False, 10**9, 1e12, n) for n in (0, 1, 2, 3)]
    assert times == pytest.approx([times[0], 4 * times[0], 2 * times[0], times[0]])
    older, newest = (device.seconds(1, 10, 1280, 2048, 128, False, False, 10**9, 1e12, n) for n in (1, 0))
    assert older == pytest.approx(2 * newest)


def tflops(
    name: str, b: int, h: int, s: int, d: int, causal: bool, backward: bool = False, release: int = 0
) -> float:
    flops = 4 * b * h * s * s * d // (2 if causal else 1) * (5 if backward else 2) // 2
    moved = 2 * b * h * s * d
    sizes = {"b": b, "h": h, "sq": s, "skv": s, "d": d, "causal": int(causal), "backward": int(backward)}
    sizes |= {"release": release} if release else {}
    work = Work(Kernel.ATTENTION, DType.BF16, flops, 3 * moved, moved, tuple(sizes.items()))
    return flops / load_device(name).kernel_time(work) / 1e12


LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


@pytest.mark.parametrize(("s", "measured"), list(zip(LENGTHS, (467, 565, 625, 638, 646, 648), strict=True)))
def test_h100_without_mask_as_in_the_flashattention_3_paper(s, measured):
    # arXiv 2407.08608: head dim 128, 16k tokens, hidden size 2048.
    assert tflops("h100-sxm", 16384 // s, 16, s, 128, causal=False) == pytest.approx(measured, rel=0.13)


@pytest.mark.parametrize(("s", "measured"), list(zip(LENGTHS, (309, 350, 362, 368, 370, 370), strict=True)))
def test_h100_with_the_second_release_as_in_the_flashattention_3_paper(s, measured):
    # arXiv 2407.08608: FlashAttention-2 at head dim 128, 16k tokens, hidden size 2048.
    found = tflops("h100-sxm", 16384 // s, 16, s, 128, causal=False, release=2)
    assert found == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize(("s", "measured"), list(zip(LENGTHS, (286, 427, 537, 612, 628, 642), strict=True)))
def test_h100_causal_as_in_the_flashattention_3_paper(s, measured):
    # arXiv 2407.08608: head dim 256, 16k tokens, hidden size 2048.
    assert tflops("h100-sxm", 16384 // s, 8, s, 256, causal=True) == pytest.approx(measured, rel=0.18)


@pytest.mark.parametrize(
    ("heads", "forward", "backward"),
    [(8, 0.39, 0.38), (16, 0.495, 0.445), (32, 0.56, 0.485), (64, 0.595, 0.505)],
)
def test_a100_causal_by_the_number_of_heads(heads, forward, backward):
    # Fractions of peak at 4k keys and head dim 128 in MooreThreads/SimuMax, the mask counted as half.
    share = tflops("a100-pcie-80", 1, heads, 4096, 128, causal=True) / 312
    assert share == pytest.approx(forward, rel=0.15)
    share = tflops("a100-pcie-80", 1, heads, 4096, 128, causal=True, backward=True) / 312
    assert share == pytest.approx(backward, rel=0.09)


@pytest.mark.parametrize(
    ("d", "s", "measured"),
    [(64, 1024, 70), (64, 4096, 87), (128, 2048, 69), (128, 4096, 76), (128, 8192, 80)],
)
def test_a100_with_the_first_release_as_in_the_flashattention_2_paper(d, s, measured):
    # arXiv 2307.08691, figures in Dao-AILab/flash-attention: causal, 16k tokens, hidden size 2048, both ways.
    forward, backward = (
        tflops("a100-sxm-80", 16384 // s, 2048 // d, s, d, causal=True, backward=back, release=1)
        for back in (False, True)
    )
    assert 3.5 / (1 / forward + 2.5 / backward) == pytest.approx(measured, rel=0.07)


def test_entries_of_one_release_need_head_dims():
    entries = [{"release": 1, "speed": 0.5}, {"release": 1, "head_dim": 64, "speed": 0.6}]
    given = {"use": "dgx-a100", "device": {"use": "a100-sxm-80", "attention": {"earlier": entries}}}
    with pytest.raises(ScenarioError, match="the entries of release 1 each need a head_dim"):
        validate_data({"host": given}, ClusterSpec)
