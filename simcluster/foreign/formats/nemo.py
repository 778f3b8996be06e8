"""A NeMo 1 Megatron YAML, a NeMo 2 recipe or a Megatron-Bridge configuration as YAML.

All three use Megatron's words below sections of their own; the meaning of the words is Megatron's.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.foreign.importer_interface import Given, Importer
from simcluster.foreign.megatron import FAMILY_MEANINGS as FAMILIES
from simcluster.foreign.megatron import ZERO, meaning_of, offload, structure
from simcluster.foreign.megatron import combined_arguments as megatron
from simcluster.foreign.megatron import nemo_arguments as words
from simcluster.foreign.reading import read_settings
from simcluster.foreign.translation import (
    Facts,
    Meaning,
    effectless,
    embedding_dropout,
    fraction,
    inert,
    lost,
    mixture,
    number,
    of_profile,
    say_framework,
    selects,
    states,
    switch,
    word,
)

_INERT = inert("nemo")
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

    def read(self, text: str, name: str, given: Given) -> Facts:
        """What the file says, by Megatron's meanings."""
        facts = Facts(settings=dict(given.settings))
        say_framework(facts, "nemo", "which reads such files")
        written = read_settings(text, name)
        self.expect(written, name)
        facts.understand(written, _meaning)
        words.gate(facts)
        megatron.fully_sharded(
            facts, [flag.name.rpartition(".")[2] for flag in written if flag.value is True]
        )
        if words.of_bridge(written):
            words.recipe(facts)
        if "model.layers" in facts.known and "model.use" in facts.known:
            facts.absorb(facts.drop("model.use"))  # its dimensions are written out
        if given.model is None and "model.use" not in facts.known:
            megatron.dimensions(facts, grouped=True)
            mixture(facts, chosen=2, groups_best=True)
        else:
            _keep_to_the_catalog(facts)
        megatron.dropout(facts, 0.0)
        megatron.numbers(facts)
        megatron.recomputation(facts)
        megatron.stages(facts)
        structure(facts)
        offload(facts, given)
        if facts.get("chunks", 1) <= 1:
            facts.default("p2p", "blocking", "NeMo's default without virtual stages")
        return facts


_OWN: Mapping[str, Meaning] = {
    "name": words.named,
    "model.tokenizer.type": states("tokenizer", word),
    "trainer.devices": states("devices_per_host"),
    "trainer.num_nodes": states("hosts"),
    "trainer.precision": words.precision,
    "trainer.plugins.precision": words.precision,
    "plugins.precision": words.precision,
    "mixed_precision": words.precision,
    "model.precision": words.precision,
    "trainer.accumulate_grad_batches": lost("micro-batches follow from the batch sizes", unless=(1, None)),
    "trainer.max_steps": effectless,
    "model.encoder_seq_length": states("training.seq_len"),
    "model.data.seq_length": states("training.seq_len"),
    "dataset.sequence_length": states("training.seq_len"),
    "model.activation": words.activation,
    "model.activation_func": words.function,
    "model.activation_func._target_": words.function,
    "model.config.activation_func._target_": words.function,
    "model.gated_linear_unit": switch("gated", True, False),
    "model.openai_gelu": lambda facts, flag: facts.effectless(flag, "another form of GELU"),
    "model.transformer_block_type": lost("norms in front of attention and MLP", unless=("pre_ln", None)),
    "model.use_flash_attention": of_profile,
    "model.use_emha": of_profile,
    "model.get_attention_mask_from_fusion": of_profile,
    "model.sharp": lost("switches reduce nothing: --cluster dgx-h100-sharp has some that do"),
    "model.data.train_ds.max_seq_length": states("training.seq_len"),
    "model.bert_binary_head": words.heads_of_bert,
    "model.encoder.num_layers": words.of_encoder,
    "model.encoder.arch": lost("the encoder is a transformer", unless=("transformer", None)),
    "model.decoder.num_layers": states("decoder_layers"),
    "model.data.seq_length_dec": states("decoder_seq_len"),
    "model.share_token_embeddings": lost("both sides share the table of tokens", unless=(True, None)),
    "model.share_decoder_tokens_head_embeddings": switch("model.tied", True, False),
    "model.tokens_head_bias": lost("the head has no bias"),
    "model.headscale": lost("heads are not scaled"),
    "model.qkv_bias": switch("model.qkv_bias", True, False),
    "model.emb_dropout_prob": embedding_dropout,
    "model.rotary_pct": fraction,
    "model.bias": switch("model.bias", True, False),
    "model.normalization": selects(
        "model.norm",
        {"rmsnorm": "rms", "layernorm": "layer", "layernorm1p": "layer", "low_precision_layernorm": "layer"},
        "layer norm is simulated",
    ),
    "model.rotary_base": states("model.rope_theta", number),
    "model.override_vocab_size": states("padded_vocab"),
    "model.ffn_dropout": lost("there is no dropout inside the MLP", unless=(0.0, 0, None)),
    "model.fp8": words.fp8,
    "model.transformer_engine": effectless,
    "model.mcore_gpt": effectless,
    "model.mcore_bert": effectless,
    "model.mcore_t5": effectless,
    "model.megatron_amp_O2": effectless,
    "model.megatron_amp_o2": effectless,
    "model.optim.name": words.optimizer,
    "optim.name": words.optimizer,
    "optim._target_": words.made_by,
    "optim._factory_": words.made_by,
    "optimizer._target_": words.made_by,
    "optimizer.name": words.optimizer,
    "optimizer.optimizer": words.optimizer,
    "model.optim.betas": words.betas,
    "model.optim.grad_sync_dtype": selects(
        "training.precision.gradients", {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
    ),
    "model.optim.contiguous_grad_bucket": of_profile,
    "model.optim.contiguous_param_bucket": of_profile,
    "model.optim.bucket_cap_mb": of_profile,
    "model.gradient_as_bucket_view": of_profile,
    "model.grad_allreduce_chunk_size_mb": of_profile,
    "model.grad_div_ar_fusion": of_profile,
    "model.ub_tp_comm_overlap": switch("tensor_chunks"),
    "model.nccl_communicator_config_path": effectless,
    "model.fsdp": switch("parallel.optimizer_sharding", ZERO[3]),
    "model._target_": words.target,
    "model.config._target_": words.target,
    "model.provider": words.target,
}
"""Settings with a meaning of their own in these files."""


def _meaning(name: str) -> Meaning | None:
    if name in _OWN:
        return _OWN[name]
    head, _, rest = name.partition(".")
    if head == "peft":
        return words.adapters
    if name.startswith("model.peft."):
        return words.schemed
    if name.startswith("model.encoder."):
        return _meaning(name.replace("encoder.", "", 1))
    if name.startswith("model.decoder."):
        return words.of_decoder
    if head in _INERT["effectless"] or name.endswith(("._target_", "._partial_", "._args_")):
        return effectless
    for section in _SECTIONS:
        if not name.startswith(section):
            continue
        key = name.removeprefix(section)
        if f"model.{key}" in _OWN and section == "model.config.":
            return _OWN[f"model.{key}"]
        found = meaning_of(key) or FAMILIES.get(key)
        if found is not None:
            return found
        if key.partition(".")[0] in _INERT["model"] or key.startswith(("sched.", "tokenizer.", "data.")):
            return effectless
    return effectless if rest.startswith("tokenizer.") else None


def _keep_to_the_catalog(facts: Facts) -> None:
    """Beside a catalog model only what the file says replaces its dimensions."""
    for name in ("positions_limit", "query_groups", "tokenizer"):
        if name in facts.known:
            facts.effectless(facts.drop(name), "the model is that of the catalog")
