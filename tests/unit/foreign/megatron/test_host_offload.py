"""What Megatron, its forks and MindFormers leave on hosts."""

from __future__ import annotations

import pytest

from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from tests.support.megatron_launches import offloading as megatron
from tests.support.mindformers_files import read as mindformers


def placed(found):
    """What is said about offload and hosts."""
    return {key: value for key, value in found.data["parallel"].items() if key in ("host", "offload")}


def fates(found, name):
    """What became of settings whose names end so."""
    return [each.status for each in found.untranslated if each.flag.name.endswith(name)]


FIRST_TWO = {"offload": {"activations": {"to": "host", "match": ["layers.{0,1}.*"]}}}
MEGATRON = {
    "--optimizer-cpu-offload": {"host": ["*.update"]},
    "--optimizer-cpu-offload --optimizer-offload-fraction 1.0 --overlap-cpu-optimizer-d2h-h2d": {
        "host": ["*.update"]
    },
    "--cpu-offloading-num-layers 2": FIRST_TWO,
    "--cpu-offloading-num-layers 1": {
        "offload": {"activations": {"to": "host", "match": ["layers.0.*"]}},
    },
    "--swap-optimizer": {"offload": {"optimizer_states": "host"}},
    "--cpu-offloading-num-layers 0 --optimizer-offload-fraction 0.5": {},
}


@pytest.mark.parametrize("more", MEGATRON)
def test_megatrons_arguments(more):
    found = megatron(more)
    assert placed(found) == MEGATRON[more]
    offload = ("fraction", "offload", "d2h-h2d", "num-layers", "swap-optimizer")
    told = [fate for name in offload for fate in fates(found, name)]
    assert not {TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN} & set(told)


def test_a_share_of_the_optimizer_is_updated_on_the_device():
    found = megatron("--optimizer-cpu-offload --optimizer-offload-fraction 0.5")
    assert placed(found) == {"offload": {"optimizer_states": {"to": "host", "fraction": 0.5}}}
    assert fates(found, "fraction") == [TranslationStatus.UNSUPPORTED]


def test_hosts_without_figures_update_on_the_device():
    found = megatron("--optimizer-cpu-offload", cluster="dgx-b300")
    assert placed(found) == {"offload": {"optimizer_states": "host"}}
    assert fates(found, "optimizer-cpu-offload") == [TranslationStatus.UNSUPPORTED]


def test_nemos_switch_and_number_of_layers():
    text = "\n".join(
        [
            "trainer: {devices: 8, num_nodes: 1}",
            "model: {encoder_seq_length: 512, num_layers: 4, hidden_size: 512, num_attention_heads: 8,",
            "  micro_batch_size: 1, global_batch_size: 16, make_vocab_size_divisible_by: 128,",
            "  cpu_offloading: SWITCH, cpu_offloading_num_layers: 2}",
        ]
    )
    given = UserAdditions("dgx-a100", 1, None, (("model.vocab", "32000"),))
    for switch, expected in (("true", FIRST_TWO), ("false", {})):
        found = translate_file(importer("nemo"), text.replace("SWITCH", switch), "n.yaml", given)
        assert placed(found) == expected
        assert TranslationStatus.UNSUPPORTED not in fates(found, "cpu_offloading")


MINDFORMERS = {
    "automatic": (
        {"context__memory_offload": "ON", "context__max_device_memory": "58GB"},
        {"auto": True, "max_device_memory": "58 GiB"},
    ),
    "off": ({"context__memory_offload": "OFF", "context__max_device_memory": "58GB"}, None),
    "states": ({"optimizer__swap": True}, {"optimizer_states": "host"}),
    "all layers": (
        {"swap_config": {"swap": True, "layer_swap": [{"backward_prefetch": 1, "layers": True}]}},
        {"activations": {"to": "host", "match": ["layers.*"]}},
    ),
    "some layers": (
        {"swap_config": {"swap": True, "default_prefetch": 10, "layer_swap": [{"layers": [0, 3]}]}},
        {"activations": {"to": "host", "match": ["layers.0.*", "layers.3.*"]}},
    ),
    "not swapped": ({"swap_config": {"swap": False, "layer_swap": [{"layers": True}]}}, None),
}


@pytest.mark.parametrize("case", MINDFORMERS)
def test_mindformers_settings(case):
    changes, expected = MINDFORMERS[case]
    found = mindformers(**changes)
    assert placed(found).get("offload") == expected
    for name in ("memory_offload", "max_device_memory", "swap", "layer_swap"):
        assert not {TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN} & set(fates(found, name))


def test_what_mindformers_swaps_otherwise_is_listed():
    found = mindformers(swap_config={"swap": True, "op_swap": {"attention.wo": [{"layers": True}]}})
    assert placed(found) == {}
    assert fates(found, "swap_config.swap") == [TranslationStatus.UNSUPPORTED]
    assert fates(found, "op_swap.attention.wo") == [TranslationStatus.UNSUPPORTED]
    both = mindformers(context__memory_offload="ON", optimizer__swap=True)
    assert placed(both)["offload"]["auto"] is True
    assert fates(both, "optimizer.swap") == [TranslationStatus.UNSUPPORTED]
