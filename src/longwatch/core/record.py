"""The base of all plain records: slots written out, no generated code.

A generated record class costs as much at start-up as a module (0.1 ms), and a watchdog has thirty of them.
So each record writes its slots and its `__init__`; equality, text and the plain form come from here.
"""


class Plain:
    """A value whose fields are its slots. Equal when class and fields are equal."""

    __slots__: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, in the order of the slots."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((type(self), *(repr(getattr(self, name)) for name in self.__slots__)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"
