"""Where keys stand in a text, whatever way TOML lets them be written."""

import tomli
from hypothesis import given
from hypothesis import strategies as st

from longwatch.config.places import Path, Places

TEXT = """\
top = 1
[a]
b = "x"   # comment
  c.d = 2
e = { f = 1, "g h" = [ 1, { i = 2 } ] }
# between
[[a.list]]
k = 1
[[a.list]]
"ü" = 1
[a.list.sub]
m = 1
[a."dotted.name".z]
'raw' = \"\"\"
b = 1
\"\"\"
n = 1
"""
PLACES: dict[Path, tuple[int, int]] = {
    ("top",): (1, 1), ("a",): (2, 2), ("a", "b"): (3, 1), ("a", "c", "d"): (4, 5), ("a", "e", "f"): (5, 7),
    ("a", "e", "g h"): (5, 14), ("a", "e", "g h", 0): (5, 24), ("a", "e", "g h", 1, "i"): (5, 29),
    ("a", "list", 0): (7, 5), ("a", "list", 0, "k"): (8, 1), ("a", "list", 1): (9, 5), ("a", "list", 1, "ü"): (10, 1),
    ("a", "list", 1, "sub", "m"): (12, 1), ("a", "dotted.name", "z"): (13, 18), ("a", "dotted.name", "z", "raw"): (14, 1),
    ("a", "dotted.name", "z", "n"): (17, 1),
}  # fmt: skip


def test_places() -> None:
    """Tables, dotted and quoted keys, inline tables, arrays of tables; a text over many lines hides nothing."""
    tomli.loads(TEXT)
    places = Places.of(TEXT)
    assert {path: places.at(path) for path in PLACES} == PLACES


def test_what_is_not_there_stands_at_what_is_above() -> None:
    """A missing key is placed at its table; nothing known is no place."""
    places = Places.of(TEXT)
    assert places.at(("a", "list", 0, "nope")) == (7, 5)
    assert (places.line(("a", "list", 0, "nope")), places.line(("a", "b"))) == (0, 3)
    assert places.at(("nope",)) == (0, 0)


def test_columns_count_characters() -> None:
    """A column is what an editor shows, not a byte."""
    assert Places.of('x = { "äöü" = 1, b = 2 }').at(("x", "b")) == (1, 18)
    assert Places.of('"a\\u00e4" = 1\n"q\\U0001F600" = 2').at(("aä",)) == (1, 1)


@given(st.text(max_size=60) | st.text('[]{}=.,"#ab\n 1', max_size=40))
def test_any_text_has_places_or_none(text: str) -> None:
    """No text, however broken, makes the search fail."""
    Places.of(text)
