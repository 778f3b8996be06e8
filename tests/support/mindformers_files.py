"""MindFormers files as they are read."""

from __future__ import annotations

from ruamel.yaml import YAML

from simcluster.foreign import UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of

NAME = "llama3_8b_mindformers.yaml"


def read(**changes):
    """The sample with settings changed (``a__b=c``); None takes one away."""
    import io

    yaml = YAML(typ="safe", pure=True)
    data = yaml.load(text_of(NAME))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = data
        for key in parents:
            inner = inner.setdefault(key, {})
        if value is None:
            inner.pop(last)
        else:
            inner[last] = value
    stream = io.StringIO()
    yaml.dump(data, stream)
    return translate_file(
        importer("mindformers"), stream.getvalue(), "m.yaml", UserAdditions("atlas-800t-a2")
    )


def listed(found, name):
    return [each.status for each in found.untranslated if each.flag.name.endswith(name)]
