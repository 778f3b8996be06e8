from hypothesis import given
from hypothesis import strategies as st

from simcluster.document import Document
from simcluster.report.html.scenario_yaml import scenario_listing

KEYS = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
def test_the_listing_reads_as_the_same_data(data):
    assert Document.parse(scenario_listing(data), "listing").data == data


def test_mappings_are_blocks_and_short_lists_lines():
    text = scenario_listing(
        {"cluster": {"use": "dgx-h100", "hosts": 2}, "fuse": [["a", "b"]], "precision": "yes"}
    )
    assert text == 'cluster:\n  use: dgx-h100\n  hosts: 2\nfuse: [[a, b]]\nprecision: "yes"\n'
