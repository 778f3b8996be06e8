"""NeMo files as they are read."""

from __future__ import annotations

from simcluster.foreign import UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of


def read(text, *, settings=(), model=None):
    return translate_file(importer("nemo"), text, "n.yaml", UserAdditions("dgx-h100", 16, model, settings))


def changed(old, new, name="gpt_nemo1.yaml"):
    text = text_of(name)
    assert text.count(old) == 1
    return text.replace(old, new)
