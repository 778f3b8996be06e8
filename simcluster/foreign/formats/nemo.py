"""A NeMo 1 Megatron YAML, a NeMo 2 recipe or a Megatron-Bridge configuration as YAML.

All three use Megatron's words below sections of their own; the meaning of the words is Megatron's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from simcluster.foreign.deepspeed import ZERO
from simcluster.foreign.importer_interface import Importer, UserAdditions
from simcluster.foreign.megatron import FAMILY_MEANINGS as FAMILIES
from simcluster.foreign.megatron import combined_arguments as megatron
from simcluster.foreign.megatron import (
    meaning_of,
    recipe_flags,
    state_family_structure,
    state_layout,
    state_megatron_offload,
)
from simcluster.foreign.megatron import nemo_arguments as words
from simcluster.foreign.reading import Flag, PythonProgram, read_settings
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    decided_by_profile,
    has_no_effect,
    ignored_settings,
    not_expressible,
    read_number,
    read_word,
    reads_betas,
    reads_embedding_dropout,
    reads_rotary_fraction,
    selects,
    state_mixture,
    state_profile,
    states_value,
    switch,
)

_IGNORED = ignored_settings("nemo")
_SECTIONS = (
    "model.config.",
    "model.data.",
    "model.optim.",
    "model.",
    "trainer.strategy.ddp.",
    "trainer.strategy.",
    "trainer.plugins.",
    "trainer.",
    "optim.config.",
    "optim.",
    "optimizer.",
    "train.",
    "dataset.",
    "data.",
    "ddp.",
    "comm_overlap.",
    "mixed_precision.",
    "plugins.",
)
"""Sections whose settings have Megatron's names, the more particular first."""


class Nemo(Importer):
    """NeMo's and Megatron-Bridge's YAML."""

    kind = "nemo"
    title = "a NeMo or Megatron-Bridge YAML"
    certain = (
        "model.tensor_model_parallel_size",
        "model.micro_batch_size",
        "trainer.strategy.tensor_model_parallel_size",
    )
    marks = (
        "model.micro_batch_size",
        "trainer.num_nodes",
        "trainer.devices",
        "train.micro_batch_size",
        "trainer.precision",
        "trainer.strategy.",
        "model.tensor_model_parallel_size",
        "model.num_layers",
        "model._target_",
        "model.config.",
        "model.provider",
        "train.global_batch_size",
        "train.train_iters",
        "model.seq_length",
    )

    def read(self, text: str, name: str, given: UserAdditions) -> Facts:
        """What the file says, by Megatron's meanings."""
        facts = Facts(settings=dict(given.settings))
        state_profile(facts, "nemo", "which reads such files")
        program = PythonProgram.parse(text)
        written = [*recipe_flags(program, name)] if program else [*_with_callbacks(read_settings(text, name))]
        self.expect(written, name)
        facts.understand(written, _meaning)
        words.read_gate(facts)
        megatron.state_full_sharding(
            facts, [flag.name.rpartition(".")[2] for flag in written if flag.value is True]
        )
        if program is not None or words.is_megatron_bridge(written):
            words.state_recipe(facts)
        if {"model.layers", "model.hidden", "model.use"} <= set(facts.known):
            facts.absorb(facts.drop("model.use"))  # its dimensions are written out
        if given.model is None and "model.use" not in facts.known:
            words.state_class_defaults(facts)
            megatron.state_dimensions(facts, grouped=True)
            state_mixture(facts, chosen=2, groups_best=True, padded=False)
        else:
            words.state_class_defaults(facts, counts=False)
            _keep_to_the_catalog(facts)
        megatron.state_dropout(facts, 0.0)
        megatron.state_precision(facts)
        words.state_nemo_adapters(facts)
        state_layout(facts)
        megatron.state_recomputation(facts)
        megatron.adjust_end_stages(facts)
        state_family_structure(facts)
        state_megatron_offload(facts, given)
        if facts.get("chunks", 1) <= 1:
            facts.default("p2p", "blocking", "NeMo's default without virtual stages")
        return facts


_CALLBACKS = "trainer.callbacks"
_OVERLAP = "MegatronCommOverlapCallback"


def _with_callbacks(flags: Iterable[Flag]) -> Iterator[Flag]:
    """The settings, those of callbacks one by one: the one of overlap has settings of its own."""
    for flag in flags:
        items = flag.value if flag.name == _CALLBACKS and isinstance(flag.value, list) else None
        if items is None or not all(isinstance(item, Mapping) and "_target_" in item for item in items):
            yield flag
            continue
        for item in items:
            kind = str(item["_target_"]).rpartition(".")[2]
            inside = {} if kind != _OVERLAP else item
            if kind != _OVERLAP:
                yield Flag(f"{_CALLBACKS}.{kind}", kind, f"{_CALLBACKS}: {kind}", flag.where)
            for key, value in inside.items():
                if key != "_target_" and not isinstance(value, Mapping):
                    yield Flag(f"comm_overlap.{key}", value, f"{kind}.{key}: {value}", flag.where)


_OWN: Mapping[str, Meaning] = {
    "name": words.read_config_name,
    "model.tokenizer.type": states_value("tokenizer", read_word),
    "trainer.devices": states_value("devices_per_host"),
    "trainer.num_nodes": states_value("hosts"),
    "trainer.precision": words.read_precision,
    "trainer.plugins.precision": words.read_precision,
    "plugins.precision": words.read_precision,
    "mixed_precision": words.read_precision,
    "model.precision": words.read_precision,
    "trainer.accumulate_grad_batches": not_expressible(
        "micro-batches follow from the batch sizes", unless=(1, None)
    ),
    "trainer.max_steps": has_no_effect,
    "model.encoder_seq_length": states_value("training.seq_len"),
    "model.data.seq_length": states_value("training.seq_len"),
    "dataset.sequence_length": states_value("training.seq_len"),
    "model.activation": words.read_activation,
    "model.activation_func": words.read_activation_function,
    "model.activation_func._target_": words.read_activation_function,
    "model.config.activation_func._target_": words.read_activation_function,
    "model.gated_linear_unit": switch("gated", True, False),
    "model.openai_gelu": lambda facts, flag: facts.effectless(flag, "another form of GELU"),
    "model.transformer_block_type": not_expressible(
        "norms in front of attention and MLP", unless=("pre_ln", None)
    ),
    "model.use_flash_attention": decided_by_profile,
    "model.use_emha": decided_by_profile,
    "model.get_attention_mask_from_fusion": decided_by_profile,
    "model.sharp": not_expressible("switches reduce nothing: --cluster dgx-h100-sharp has some that do"),
    "model.data.train_ds.max_seq_length": states_value("training.seq_len"),
    "model.bert_binary_head": words.read_bert_heads,
    "model.encoder.num_layers": words.read_encoder_size,
    "model.encoder.arch": not_expressible("the encoder is a transformer", unless=("transformer", None)),
    "model.decoder.num_layers": states_value("decoder_layers"),
    "model.data.seq_length_dec": states_value("decoder_seq_len"),
    "model.share_token_embeddings": not_expressible(
        "both sides share the table of tokens", unless=(True, None)
    ),
    "model.share_decoder_tokens_head_embeddings": switch("model.tied", True, False),
    "model.tokens_head_bias": not_expressible("the head has no bias"),
    "model.headscale": not_expressible("heads are not scaled"),
    "model.qkv_bias": switch("model.qkv_bias"),
    "model.emb_dropout_prob": reads_embedding_dropout,
    "model.rotary_pct": reads_rotary_fraction,
    "model.bias": switch("model.bias", True, False),
    "model.normalization": selects(
        "model.norm",
        {"rmsnorm": "rms", "layernorm": "layer", "layernorm1p": "layer", "low_precision_layernorm": "layer"},
        "layer norm is simulated",
    ),
    "model.rotary_base": states_value("model.rope_theta", read_number),
    "model.override_vocab_size": states_value("padded_vocab"),
    "tokenizer.vocab_size": states_value("model.vocab"),
    "model.tokenizer.vocab_size": states_value("model.vocab"),
    "model.ffn_dropout": not_expressible("there is no dropout inside the MLP", unless=(0.0, 0, None)),
    "model.fp8": words.read_fp8,
    "model.transformer_engine": has_no_effect,
    "model.mcore_gpt": has_no_effect,
    "model.mcore_bert": has_no_effect,
    "model.mcore_t5": has_no_effect,
    "model.megatron_amp_O2": has_no_effect,
    "model.megatron_amp_o2": has_no_effect,
    "model.optim.name": words.read_optimizer,
    "optim.name": words.read_optimizer,
    "optim._target_": words.read_optimizer_factory,
    "optim._factory_": words.read_optimizer_factory,
    "optimizer._target_": words.read_optimizer_factory,
    "optimizer.name": words.read_optimizer,
    "optimizer.optimizer": words.read_optimizer,
    "model.optim.betas": reads_betas,
    "model.optim.grad_sync_dtype": selects(
        "training.precision.gradients", {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
    ),
    "model.optim.contiguous_grad_bucket": decided_by_profile,
    "model.optim.contiguous_param_bucket": decided_by_profile,
    "model.optim.bucket_cap_mb": decided_by_profile,
    "trainer.strategy.gradient_as_bucket_view": decided_by_profile,
    "trainer.strategy.ddp.average_in_collective": decided_by_profile,
    "ddp.average_in_collective": decided_by_profile,
    "comm_overlap.wgrad_deferral_limit": decided_by_profile,
    "model.gradient_as_bucket_view": decided_by_profile,
    "model.grad_allreduce_chunk_size_mb": decided_by_profile,
    "model.grad_div_ar_fusion": decided_by_profile,
    "model.ub_tp_comm_overlap": switch("tensor_chunks"),
    "model.nccl_communicator_config_path": has_no_effect,
    "model.fsdp": switch("parallel.optimizer_sharding", ZERO[3]),
    "model._target_": words.read_target_class,
    "model.config._target_": words.read_target_class,
    "model.provider": words.read_target_class,
}
"""Settings with a meaning of their own in these files."""


def _meaning(name: str) -> Meaning | None:
    if name in _OWN:
        return _OWN[name]
    if name.startswith(f"{_CALLBACKS}."):
        return has_no_effect if name.rpartition(".")[2] in _IGNORED["callbacks"] else None
    head, _, rest = name.partition(".")
    if name.startswith("model.encoder."):
        return _meaning(name.replace("encoder.", "", 1))
    if head == "peft" or name.startswith("model.peft"):
        return words.adapter_meaning(name)
    if name.startswith("model.decoder."):
        return words.read_decoder_size
    if head in _IGNORED["effectless"] or name.endswith(("._target_", "._partial_", "._args_")):
        return has_no_effect
    for section in _SECTIONS:
        if not name.startswith(section):
            continue
        key = name.removeprefix(section)
        if f"model.{key}" in _OWN and section == "model.config.":
            return _OWN[f"model.{key}"]
        if meaning := meaning_of(key) or FAMILIES.get(key):
            return meaning
        if key.partition(".")[0] in _IGNORED["model"] or key.startswith(("sched.", "tokenizer.", "data.")):
            return has_no_effect
    return has_no_effect if rest.startswith("tokenizer.") else None


def _keep_to_the_catalog(facts: Facts) -> None:
    """Beside a catalog model only what the file says replaces its dimensions."""
    facts.drop_effectless(
        ("positions_limit", "query_groups", "tokenizer"), "the model is that of the catalog"
    )
