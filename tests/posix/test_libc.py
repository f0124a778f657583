"""Calls of the C library that Python does not wrap: searching a buffer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.posix import libc
from longwatch.posix.libc import memmem


@given(data=st.binary(max_size=200), needle=st.binary(min_size=1, max_size=3), size=st.integers(0, 200))
def test_searching_a_buffer(data: bytes, needle: bytes, size: int) -> None:
    """The C library finds what bytearray finds, zero bytes included, and nothing beyond the size."""
    buffer = bytearray(data.ljust(200, needle[:1]))
    assert memmem(buffer, size, needle) == buffer.find(needle, 0, size)


def test_without_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the call cannot be had bytearray searches."""
    monkeypatch.setattr(libc, "_memmem", None)
    assert memmem(bytearray(b"abcabc"), 6, b"ca") == 2
    assert memmem(bytearray(b"abcabc"), 3, b"ca") == -1
