import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.document.scalar import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("42", 42),
        ("-7", -7),
        ("+7", 7),
        ("010", 10),
        ("0o10", 8),
        ("0o9", "0o9"),
        ("-0o10", "-0o10"),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000_000", 1_000_000),
        ("1__0", "1__0"),
        ("_1", "_1"),
        ("1_", "1_"),
        ("1e-6", 1e-6),
        ("312e12", 312e12),
        ("1E+3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("3.5", 3.5),
        ("1_000.25", 1000.25),
        (".", "."),
        ("...", "..."),
        ("-", "-"),
        ("1.2.3", "1.2.3"),
        ("12:30:00", "12:30:00"),
        ("2026-08-01", "2026-08-01"),
        ("1f1b", "1f1b"),
        (".inf", math.inf),
        ("+.INF", math.inf),
        ("-.Inf", -math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        ("64 GiB", "64 GiB"),
        ("\u0661", "\u0661"),
    ],
)
def test_plain_text_follows_the_core_schema(text, value):
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_nan():
    assert math.isnan(resolve(".nan"))


@pytest.mark.parametrize("text", [str(2**64), f"-{2**64}", "9" * 5000, "0x1" + "0" * 16, "0o2" + "0" * 21])
def test_an_integer_of_more_than_64_bits_is_refused(text):
    with pytest.raises(ValueError, match="more than 64 bits"):
        resolve(text)


@given(st.integers(min_value=-(2**64) + 1, max_value=2**64 - 1))
def test_integers_come_back(number):
    assert resolve(str(number)) == number
    assert resolve(f"{number:_}") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back(number):
    assert resolve(repr(number)) == number
