"""Where each key of a TOML text stands. No reader of TOML tells, so a grammar of editors is asked.

It comes with an extra; without it the places are unknown, and everything else works.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

#: The way to a key: names of tables and keys, and numbers in arrays of tables.
Path = tuple[str | int, ...]
NOWHERE = (0, 0)


class Places:
    """Line and column, from 1, of each table and key of a text."""

    def __init__(self, found: dict[Path, tuple[int, int]]) -> None:
        self._found = found

    @classmethod
    def of(cls, text: str) -> Places:
        """Return the places in a TOML text, as far as it is one; none where the grammar is not installed."""
        try:
            import tree_sitter  # noqa: PLC0415 - an extra
            import tree_sitter_toml  # noqa: PLC0415
        except ImportError:
            return cls({})
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
        source = text.encode()
        walk = _Walk(source)
        walk.document(parser.parse(source).root_node)
        return cls(walk.found)

    def at(self, path: Path) -> tuple[int, int]:
        """Return the place of a key, else of the nearest table above it; (0, 0) where that is not known."""
        for end in range(len(path), 0, -1):
            if path[:end] in self._found:
                return self._found[path[:end]]
        return NOWHERE

    def line(self, path: Path) -> int:
        """Return the line of exactly this key; 0 where it does not stand in the text."""
        return self._found.get(path, NOWHERE)[0]


class _Walk:
    def __init__(self, source: bytes) -> None:
        self.found: dict[Path, tuple[int, int]] = {}
        self._source = source
        self._lines = source.split(b"\n")
        self._arrays: dict[Path, int] = {}

    def document(self, root: Node) -> None:
        """Take the whole text."""
        for node in root.named_children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in ("table", "table_array_element"):
                self._table(node)

    def _table(self, node: Node) -> None:
        head, *pairs = _told(node) or [node]
        path: Path = ()
        names = list(self._names(head))
        for at, (name, place) in enumerate(names, 1):
            path = (*path, name)
            self._keep(path, place)
            last = at == len(names)
            if last and node.type == "table_array_element":
                self._arrays[path] = self._arrays.get(path, -1) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path])
                self._keep(path, place)
        for pair in pairs:
            self._pair(pair, path)

    def _pair(self, node: Node, above: Path) -> None:
        key, *values = _told(node) or [node]
        path = above
        for name, place in self._names(key):
            path = (*path, name)
            self._keep(path, place)
        for value in values[:1]:
            self._value(value, path)

    def _value(self, node: Node, path: Path) -> None:
        children = _told(node)
        if node.type == "inline_table":
            for pair in children:
                self._pair(pair, path)
        elif node.type == "array":
            for number, child in enumerate(children):
                self._keep((*path, number), self._place(child))
                self._value(child, (*path, number))

    def _names(self, node: Node) -> Iterator[tuple[str, tuple[int, int]]]:
        if node.type == "dotted_key":
            for child in node.named_children:
                yield from self._names(child)
        else:
            yield self._name(node), self._place(node)

    def _name(self, node: Node) -> str:
        text = self._source[node.start_byte : node.end_byte].decode()
        if text[:1] == '"':
            return _unescaped(text)
        return text[1:-1] if text[:1] == "'" else text

    def _place(self, node: Node) -> tuple[int, int]:
        row, column = node.start_point
        return row + 1, len(self._lines[row][:column].decode(errors="replace")) + 1

    def _keep(self, path: Path, place: tuple[int, int]) -> None:
        self.found.setdefault(path, place)


def _told(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _unescaped(text: str) -> str:
    """Read a quoted key. Its escapes are those of JSON but for the long one."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]
