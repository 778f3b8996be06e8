"""Launches in manifests of Kubernetes."""

from __future__ import annotations

import pytest

from simcluster.foreign import UserAdditions, importer, translate_file
from simcluster.foreign.reading import read_manifest
from tests.support.foreign_samples import text_of

JOB = text_of("llama3_8b_pytorchjob.yaml")
WORDS = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              command: ["torchrun"]
              args:
                - --nnodes=$(PET_NNODES)
                - --nproc_per_node=8
                - run_clm.py
                - --model_name_or_path=meta-llama/Llama-2-7b-hf
                - --per_device_train_batch_size=2
                - --fsdp=full_shard auto_wrap
                - --bf16=True
                - --block_size=4096
                - --output_dir=/out
              resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_hosts_are_the_replicas_with_devices():
    """The master is a host as well; the service before it is none."""
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n---\n" + JOB.replace("--nnodes 4 ", "")
    manifest = read_manifest(text, "f", ["--num-layers"])
    assert [(flag.name, flag.value) for flag in manifest.launcher] == [
        ("--nnodes", ["4"]),
        ("--nproc-per-node", ["8"]),
    ]
    data = translate_file(importer("megatron"), text, "f", UserAdditions("dgx-h100")).data
    assert data["cluster"]["hosts"] == 4
    assert data["parallel"]["mesh"] == {"data": 16, "tensor": 2}


def test_a_setting_stands_on_its_line():
    imported = translate_file(importer("megatron"), JOB, "f", UserAdditions("dgx-h100"))
    line = next(n for n, row in enumerate(JOB.splitlines(), 1) if "--global-batch-size" in row)
    where = imported.origins["training.global_batch"].where
    assert abs(int(where.partition(":")[2]) - line) <= 1


def test_words_of_a_command_without_a_shell():
    data = translate_file(importer("trainer"), WORDS, "f.yaml", UserAdditions("dgx-h100")).data
    assert data["cluster"]["hosts"] == 2
    assert data["model"] == {"use": "llama2-7b"}
    assert data["parallel"]["optimizer_sharding"] == {"fsdp": {"reshard_after_forward": True}}


@pytest.mark.parametrize("text", ["apiVersion: v1\nkind: Service\n", "kind: Job\n", "a: 1\n", ""])
def test_other_texts_are_no_manifests(text):
    assert read_manifest(text, "f", ["--num-layers"]) is None
