"""The screen as a source: what a human would see changing, and what only looks like it."""

import pytest

from longwatch.observe.screen import MOST, Screen


@pytest.fixture
def screen():
    """Return a screen with a word on it, seen once."""
    made = Screen(10, 40)
    made.feed(memoryview(b"\033[2Jworking"))
    assert made.sample()
    return made


def changed(screen, data):
    """Feed bytes and tell whether the picture changed."""
    screen.feed(memoryview(data))
    return screen.sample()


def test_nothing_came(screen):
    """A screen to which nothing was written has not changed."""
    assert not screen.sample()
    assert not Screen().sample()


@pytest.mark.fault("B1")
@pytest.mark.parametrize("redraw", [
    b"\rworking", b"\rworking |", b"\rworking /  ", "\rworking ⠋".encode(), "\rworking ✻ ".encode(), "\rworking …".encode(),
])  # fmt: skip
def test_a_spinner(screen, redraw):
    """Drawing the same again, with any spinner beside it, is no change."""
    assert not changed(screen, redraw)


@pytest.mark.fault("B1")
def test_a_counter(screen):
    """A counter that runs is no change, also when it gains a digit."""
    assert changed(screen, b"\rworking 1 s, 9 tokens")
    for seconds in (2, 10, 99, 100, 1234):
        assert not changed(screen, b"\rworking %d s, %d tokens " % (seconds, seconds * 7)), seconds


@pytest.mark.parametrize("text", [b"\rworking hard", b"\033[5;5Hx", b"\r\nnext", b"\033[2J"])
def test_a_change(screen, text):
    """Another word, anywhere, is a change, and so is one that goes."""
    assert changed(screen, text)
    assert not screen.sample()


def test_pieces(screen):
    """A sequence or a character may come in pieces."""
    whole = "\033[3;4H\N{LATIN SMALL LETTER U WITH DIAERESIS}ber".encode()
    seen = [changed(screen, whole[at : at + 1]) for at in range(len(whole))]
    assert seen.count(True) >= 1
    assert "über" in screen._screen.display[2]


def test_a_pardoned_change(screen):
    """The first change after a pardon is ours, whenever it comes; the next one counts."""
    screen.pardon()
    assert not screen.sample()
    assert not changed(screen, b"\rworking")
    assert not changed(screen, b"\r\ngo on")
    assert changed(screen, b"\r\nyes")


def test_another_size(screen):
    """A new size alone is no change, what is drawn beyond the old one is."""
    screen.resize(50, 200)
    assert not screen.sample()
    assert changed(screen, b"\033[49;190Hx")


def test_a_flood_is_cut(screen):
    """Of a flood only the end is drawn, and memory for it stays small."""
    for _ in range(64):
        screen.feed(memoryview(b"y" * MOST))
        assert len(screen._pending) <= 2 * MOST + MOST
    assert changed(screen, b"\033[2J\033[Hend")
    assert screen._screen.display[0].startswith("end")
