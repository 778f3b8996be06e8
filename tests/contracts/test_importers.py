"""Every import format: it reads its samples, and no text makes it fail in another way than ours."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import Document
from simcluster.errors import ScenarioError
from simcluster.foreign import UserAdditions, importer, importers, translate_file, translated_text
from tests.support.foreign_samples import SAMPLES, text_of

GIVEN = UserAdditions(
    "dgx-a100", 2, "gpt3-125m", (("training.seq_len", "128"), ("training.global_batch", "16"))
)


def test_every_format_has_samples():
    assert {kind for kind, _ in SAMPLES.values()} == set(importers())


@pytest.mark.parametrize("kind", importers())
def test_it_says_what_it_reads(kind):
    found = importer(kind)
    assert found.kind == kind
    assert found.title.startswith(("a ", "an "))
    with pytest.raises(ScenarioError, match=f"f: the file is empty; expected {found.title}"):
        translate_file(found, " \n", "f", UserAdditions())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", importers())
@settings(max_examples=40)
@given(st.data())
def test_no_text_fails_in_another_way(kind, data):
    """Samples with a piece cut out, doubled or replaced: a scenario, or an error with words."""
    name = data.draw(st.sampled_from([name for name, (each, _) in SAMPLES.items() if each == kind]))
    text = text_of(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    piece = data.draw(
        st.text(max_size=6) | st.sampled_from(["'", '"', "${", "$((", ": ", "- ", "\n", "-1", "null"])
    )
    given_here = data.draw(st.sampled_from([SAMPLES[name][1], GIVEN, UserAdditions()]))
    try:
        found = translate_file(importer(kind), text[:start] + piece + text[end:], name, given_here)
    except ScenarioError as error:
        assert all(problem.message for problem in error.problems)
    else:
        assert Document.parse(translated_text(found, importer(kind), name)).data == found.data
