"""What is wrong with a file: one line each, with its place."""

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.config.places import Path, Places


class Problem(Plain):
    """One error or warning. `line` and `column` count from 1; 0 where no place is known."""

    __slots__ = ("column", "file", "line", "message")

    def __init__(self, file: str, line: int, column: int, message: str) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.message = message

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"


class Report:
    """Collects the problems of one file while it is read: all of them, in the order of their places."""

    def __init__(self, file: str, places: "Places") -> None:
        self.file = file
        self.places = places
        self._errors: list[Problem] = []
        self._warnings: list[Problem] = []

    @property
    def errors(self) -> tuple[Problem, ...]:
        """All errors, each once."""
        return _sorted(self._errors)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """All warnings, each once."""
        return _sorted(self._warnings)

    def error(self, path: "Path", message: str) -> None:
        """Tell an error at the key that a path leads to."""
        self._errors.append(self._at(path, message))

    def warn(self, path: "Path", message: str) -> None:
        """Tell what is allowed and probably not meant."""
        self._warnings.append(self._at(path, message))

    def elsewhere(self, problem: Problem, *, warning: bool = False) -> None:
        """Take a problem of another file."""
        (self._warnings if warning else self._errors).append(problem)

    def _at(self, path: "Path", message: str) -> Problem:
        return Problem(self.file, *self.places.at(path), message)


def _sorted(problems: list[Problem]) -> tuple[Problem, ...]:
    unique = {str(problem): problem for problem in problems}
    return tuple(sorted(unique.values(), key=lambda problem: (problem.file, problem.line, problem.column)))
