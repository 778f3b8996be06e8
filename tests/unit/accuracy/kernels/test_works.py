"""Rows of measured kernels as kernels of the simulator: bytes and FLOPs by hand."""

from __future__ import annotations

import pytest

from simcluster.accuracy.kernels.device_words import device_of
from simcluster.accuracy.kernels.memory_operator import operator_of
from simcluster.accuracy.kernels.row import COLUMNS, read_kernels
from simcluster.accuracy.kernels.works import kernel_task
from simcluster.errors import PlanError, ScenarioError
from simcluster.work import DType, GemmLayout, Kernel


@pytest.fixture
def rows(tmp_path):
    def written(*cells):
        lines = [
            ",".join(
                f'"{({"id": "ours-1", "device": "NVIDIA H200", "time_us": "10"} | cell).get(column, "")}"'
                for column in COLUMNS
            )
            for cell in cells
        ]
        path = tmp_path / "kernels.csv"
        path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
        return read_kernels(path)

    return written


def gemm(**cells):
    return {"kernel": "gemm", "op": "matmul", "dtype": "bf16", "m": "64", "n": "32", "k": "16"} | cells


def test_a_matmul_by_layout_and_what_it_writes(rows):
    notes = "wgrad; out_dtype=fp32, accumulate=True"
    forward, wgrad = rows(gemm(layout="TN"), gemm(layout="NT", notes=notes))
    (work,) = kernel_task(forward).works
    assert (work.flops, work.bytes_read, work.bytes_written) == (2 * 64 * 32 * 16, 2 * 1536, 4096)
    assert "layout" not in dict(work.sizes)
    (work,) = kernel_task(wgrad).works
    assert work.size("layout") == GemmLayout.WEIGHT_GRADIENT
    assert (work.bytes_read, work.bytes_written) == (2 * 1536 + 8192, 8192)


def test_a_short_run_is_told_by_its_notes_and_quantising_is_a_pass(rows):
    short = "short, near boost clock"
    included = f"{short}; may include quantising"
    plain, narrow, ascend = rows(
        gemm(notes=short),
        gemm(dtype="fp8", notes=included, software="TRTLLM 1.3"),
        gemm(dtype="int8", notes="w8a8 with dynamic activation quantisation", software="vllm-ascend 0.18"),
    )
    assert kernel_task(plain).burst and not kernel_task(plain).passes
    (product,) = kernel_task(narrow).works
    (quantise,) = kernel_task(narrow).passes
    assert (quantise.work.kernel, quantise.work.bytes_moved) == (Kernel.ELEMENTWISE, 3 * 64 * 16)
    assert product.dtype is DType.FP8 and quantise.implementation == "trtllm"
    quantise, dequantise = kernel_task(ascend).passes
    assert (quantise.work.bytes_moved, dequantise.work.bytes_moved) == (3 * 64 * 16, 6 * 64 * 32)


def test_operands_in_four_bits_are_half_a_byte_each_and_their_scales(rows):
    (row,) = rows(gemm(dtype="nvfp4"))
    (work,) = kernel_task(row).works
    assert work.bytes_read == (64 + 32) * (16 // 2 + 1) and work.bytes_written == 2 * 64 * 32


def test_a_loop_over_experts_waits_for_the_host_and_makes_gradients_of_all_weights(rows):
    cells = {"kernel": "grouped_gemm", "op": "fused_moe [huggingface]", "dtype": "bf16", "batch": "4"}
    sizes = {"m": "64", "n": "32", "k": "16"}
    forward, backward = rows({**cells, **sizes, "direction": "fwd"}, {**cells, **sizes, "direction": "bwd"})
    assert len(kernel_task(forward).works) == 4 * 5 and len(kernel_task(forward).passes) == 4
    weights = 2 * 4 * 3 * 32 * 16
    assert [step.work.bytes_moved for step in kernel_task(backward).passes] == [4 * weights] * 4


def test_attention_written_out_is_six_products_and_passes_over_all_scores(rows):
    cells = {"kernel": "other", "op": "attention fwd+bwd [PyTorch unfused]", "dtype": "fp16", "batch": "2"}
    sizes = {"heads": "3", "head_dim": "8", "seq_q": "16", "seq_kv": "16", "direction": "full"}
    plain, causal = rows({**cells, **sizes, "causal": "false"}, {**cells, **sizes, "causal": "true"})
    assert sum(work.flops for work in kernel_task(plain).works) == 6 * 2 * 2 * 3 * 16 * 16 * 8
    scores = 2 * 2 * 3 * 16 * 16
    passes = kernel_task(plain).passes
    assert [beside.work.bytes_moved for beside in passes[:2]] == [2 * scores, 3 * scores]
    assert len(kernel_task(causal).passes) == len(passes) + 1


def test_liger_projects_and_compares_in_chunks_and_adds_the_gradient_up(rows):
    cells = {
        "kernel": "cross_entropy",
        "dtype": "bf16",
        "m": "256",
        "n": "1024",
        "k": "64",
        "direction": "fwd",
    }
    whole, chunks = rows(
        {**cells, "op": "fused_linear_cross_entropy [huggingface]"},
        {**cells, "op": "fused_linear_cross_entropy [liger]"},
    )
    product = 2 * 256 * 1024 * 64
    assert sum(work.flops for work in kernel_task(whole).works) == product
    task = kernel_task(chunks)
    assert sum(work.flops for work in task.works) == 3 * product and len(task.works) == 3 * 16
    assert task.passes[1].work.bytes_moved == 3 * 2 * 1024 * 64


def test_both_gradients_are_two_matmuls(rows):
    (row,) = rows(gemm(direction="bwd", notes="bwd = dgrad + wgrad (2x FLOPs)"))
    works = kernel_task(row).works
    assert [work.size("layout") for work in works] == [1, 2]
    assert sum(work.flops for work in works) == 4 * 64 * 32 * 16


def test_attention_counts_half_under_a_mask_and_pads_nothing_itself(rows):
    cells = {"op": "sdp", "dtype": "bf16", "batch": "1", "heads": "2", "kv_heads": "1", "head_dim": "192"}
    cells |= {"seq_q": "128", "seq_kv": "128", "causal": "true", "notes": "v_head_dim=128; x"}
    forward, backward = rows(cells | {"kernel": "attention_fwd"}, cells | {"kernel": "attention_bwd"})
    (work,) = kernel_task(forward).works
    assert work.flops == (192 + 128) * 2 * 128 * 128
    assert work.bytes_read == 2 * (2 * 128 * 192 + 128 * (192 + 128)) and work.size("dv") == 128
    (work,) = kernel_task(backward).works
    assert work.flops == (3 * 192 + 2 * 128) * 2 * 128 * 128


def test_an_expert_mlp_is_grouped_matmuls_between_permutations(rows):
    cells = {"kernel": "grouped_gemm", "op": "fused MoE MLP", "dtype": "bf16", "batch": "4"}
    (row,) = rows(cells | {"m": "8", "n": "32", "k": "16", "direction": "fwd"})
    works = kernel_task(row).works
    assert [str(work.kernel) for work in works] == [
        "gather_scatter", "gemm", "elementwise", "gemm", "gather_scatter"
    ]  # fmt: skip
    assert sum(work.flops for work in works) == 6 * 4 * 8 * 32 * 16
    assert all(work.size("grouped") for work in works if work.kernel is Kernel.GEMM)


def test_memory_bound_kernels_move_the_least_in_each_direction(rows):
    cells = {"kernel": "norm", "op": "megatron_rms_norm [megatron]", "dtype": "bf16", "elements": "1000"}
    forward, both = rows(cells | {"direction": "fwd"}, cells | {"direction": "full"})
    task = kernel_task(forward)
    assert (task.implementation, task.operator) == ("megatron", "rms_norm")
    assert [work.bytes_moved for work in task.works] == [2 * 2000]
    assert [work.bytes_moved for work in kernel_task(both).works] == [2 * 2000, 2 * 3000]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (gemm(dtype="int5"), "no device has a rate for int5"),
        (gemm(m=""), "m is not stated"),
        ({"kernel": "norm", "op": "unheard of", "dtype": "bf16"}, "it is not known what 'unheard of' reads"),
        ({"kernel": "attention_fwd", "op": "unfused", "dtype": "bf16"}, "a chain of kernels"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_reason(rows, cells, reason):
    (row,) = rows(cells)
    with pytest.raises(PlanError, match=reason):
        kernel_task(row)


def test_numbers_that_are_none_are_refused_with_their_line(rows):
    with pytest.raises(ScenarioError, match=r"kernels.csv:2:\d+: m 'many' is not a whole number"):
        rows(gemm(m="many"))


@pytest.mark.parametrize(
    ("words", "device"),
    [
        ("H100 SXM5", "h100-sxm"),
        ("NVIDIA A100-PCIe", "a100-pcie-80"),
        ("NVIDIA A800", "a800-sxm-80"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Ascend 910B3", "ascend-910b-313t"),
        ("NVIDIA GH200 (480GB)", "h200-sxm"),
        ("NVIDIA V100 (form not stated)", "v100-sxm2-32"),
        ("NVIDIA RTX 4090", None),
        ("NVIDIA L40", None),
        ("Iluvatar BI-V100", None),
    ],
)
def test_devices_are_known_by_what_they_are(words, device):
    assert device_of(words) == device


@pytest.mark.parametrize(
    ("op", "operator", "implementation"),
    [
        ("RMSNorm", "rms_norm", "aten"),
        ("rms_norm [TE]", "rms_norm", "liger"),
        ("fused_add_rms_norm [vllm]", "residual_rms_norm", "liger"),
        ("apply_rotary_pos_emb", "rotary", "eager"),
        ("FusedAdam", "adam", "fused"),
    ],
)
def test_operators_of_other_publishers_have_the_usual_code(op, operator, implementation):
    found = operator_of(op, "elsewhere")
    assert (found.operator, found.implementation) == (operator, implementation)


def test_layouts_and_formats_may_have_other_names(rows):
    first, second = rows(gemm(layout="wgrad", dtype="bfloat16"), gemm(layout="NT"))
    assert kernel_task(first).works == kernel_task(second).works
    narrow, plain = rows(gemm(dtype="fp8 (rowwise)"), gemm(dtype="fp8"))
    assert kernel_task(narrow).works == kernel_task(plain).works
