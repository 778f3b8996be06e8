"""The scenario's ``parallel.auto:`` section: how the strategies of operators are searched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Bytes, Fraction, NonNegativeFloat, Refused, Section

SearchMode = Literal["dynamic_programming", "recursive_programming", "sharding_propagation"]

USUAL_SEARCH: SearchMode = "recursive_programming"
"""MindSpore's default in its newest documents; older ones had dynamic_programming."""

_ALPHA, _GAMMA = 1.0, 0.001
_BETA = {"gpu": 50.0}
_BETA_ELSEWHERE = 400.0
_CAPACITY = 16 * 2**30
"""Defaults of MindSpore's cost_model_context, for Ascend 910 unless a GPU is meant."""

_SYMBOLIC = ("communi_threshold", "communi_const", "communi_bias")


class AutoSpec(Section):
    """Settings of the search, with the names and defaults of MindSpore's ``set_algo_parameters`` and
    ``cost_model_context``.
    """

    cost_model: Literal["mindspore", "simcluster"] = "mindspore"
    """Which costs are minimised: mindspore counts bytes by symbolic rules made for Ascend 910; simcluster
    counts seconds of kernels and collectives on this cluster."""

    fully_use_devices: StrictBool = True
    """Consider only strategies that split an operator over all devices of its stage, or over as many as its
    dims allow; false: also strategies in which some devices repeat the work of others."""

    elementwise_op_strategy_follow: StrictBool = False
    """Element-wise operators take the layout of the preceding operator and are not searched."""

    tensor_slice_align_enable: StrictBool = False
    """Consider only matmul strategies in which the last dim of every slice is a multiple of
    tensor_slice_align_size."""

    tensor_slice_align_size: Annotated[int, Field(ge=1, le=1024)] = 16
    """Alignment in elements, with tensor_slice_align_enable."""

    enable_algo_approxi: StrictBool = False
    """If the memory limit is binding, dynamic_programming keeps at most 1 / algo_approxi_epsilon costs per
    list; false: as many as are needed to stay within that share of the optimum."""

    algo_approxi_epsilon: Fraction = 0.1
    """How far dynamic_programming with a memory limit may be from the optimum, as a share of it."""

    alpha: NonNegativeFloat | None = Field(
        default=None, validation_alias=AliasChoices("alpha", "costmodel_alpha")
    )
    """Weight of computation; 1 if absent."""

    beta: NonNegativeFloat | None = Field(
        default=None, validation_alias=AliasChoices("beta", "costmodel_beta")
    )
    """Weight of communication; if absent 400, on GPUs 50, and 1 with cost_model simcluster."""

    gamma: NonNegativeFloat | None = Field(
        default=None, validation_alias=AliasChoices("gamma", "costmodel_gamma")
    )
    """Share of the gradient communication that is not hidden; if absent 0.001, and 1 with cost_model
    simcluster."""

    communi_threshold: Bytes = Field(
        default=2048, validation_alias=AliasChoices("communi_threshold", "costmodel_communi_threshold")
    )
    """Of cost_model mindspore: messages up to this size have the cost communi_const."""

    communi_const: NonNegativeFloat = Field(
        default=3072, validation_alias=AliasChoices("communi_const", "costmodel_communi_const")
    )
    """Of cost_model mindspore: the cost of a small message."""

    communi_bias: NonNegativeFloat = Field(
        default=1024, validation_alias=AliasChoices("communi_bias", "costmodel_communi_bias")
    )
    """Of cost_model mindspore: added to the size in bytes of every larger message."""

    device_memory_capacity: Bytes | None = None
    """Memory limit per device for the strategies of a stage; if absent 16 GiB, as in MindSpore, and with
    cost_model simcluster the memory of the smallest device."""

    run_phase: Literal[0, 1] | None = None
    """0: training; 1: inference, which has no gradient communication. If absent, as the scenario."""

    @model_validator(mode="after")
    def _means_something(self) -> AutoSpec:
        given = [name for name in _SYMBOLIC if name in self.model_fields_set]
        if self.cost_model == "simcluster" and given:
            raise Refused(
                "cost_model simcluster prices messages by the links they travel on",
                path=given[0],
                hint="leave it out, or write cost_model: mindspore",
            )
        if "tensor_slice_align_size" in self.model_fields_set and not self.tensor_slice_align_enable:
            raise Refused(
                "nothing is aligned without tensor_slice_align_enable",
                path="tensor_slice_align_size",
                hint="write tensor_slice_align_enable: true, or leave it out",
            )
        return self

    def weights(self, device: str) -> tuple[float, float, float]:
        """Alpha, beta and gamma for a kind of device: ascend, gpu or cpu."""
        symbolic = self.cost_model == "mindspore"
        usual = (_ALPHA, _BETA.get(device, _BETA_ELSEWHERE), _GAMMA) if symbolic else (1.0, 1.0, 1.0)
        given = (self.alpha, self.beta, self.gamma)
        alpha, beta, gamma = (
            default if weight is None else weight for weight, default in zip(given, usual, strict=True)
        )
        return alpha, beta, gamma

    def capacity(self, smallest: int) -> float:
        """Bytes that a stage may need on a device, of which the smallest has so many."""
        if self.device_memory_capacity is not None:
            return self.device_memory_capacity
        return _CAPACITY if self.cost_model == "mindspore" else smallest
