from __future__ import annotations

from simcluster.model import Region, TensorType
from simcluster.model.graph.operator import memory_bound
from simcluster.work import DType, Kernel


def test_a_tensor_counts_elements_and_bytes():
    kind = TensorType((2, 3, 4), DType.BF16)
    assert (kind.num_elements, kind.num_bytes) == (24, 48)
    assert TensorType((), DType.FP32).num_bytes == 4
    assert str(kind) == "bf16[2, 3, 4]"
    assert str(TensorType((), DType.INT64)) == "int64[]"


def test_a_region_starts_at_zero_where_nothing_is_said():
    region = Region({"vocab": 8})
    assert (region.start("vocab"), region.start("seq"), region.step) == (8, 0, 1)


def test_a_memory_bound_kernel_reads_inputs_and_writes_outputs_once():
    wide, narrow = TensorType((4, 8), DType.BF16), TensorType((4,), DType.FP32)
    work = memory_bound(Kernel.REDUCTION, (wide, narrow), (narrow,), flops_per_element=5)
    assert (work.kernel, work.dtype) == (Kernel.REDUCTION, DType.BF16)
    assert (work.bytes_read, work.bytes_written, work.flops) == (64 + 16, 16, 5 * 32)
    adding = memory_bound(Kernel.REDUCTION, (wide, narrow), (narrow,), accumulate=True)
    assert (adding.bytes_read, adding.bytes_written) == (64 + 16 + 16, 16)


def test_a_kernel_without_inputs_has_the_type_of_what_it_writes():
    assert memory_bound(Kernel.COPY, (), (TensorType((2,), DType.FP16),)).dtype is DType.FP16
