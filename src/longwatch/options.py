"""Reading options: flags, variables, a file and built-ins, by the table in `option_table`.

Three rules. Options end at the first operand or at `--`, so that the command's own flags stay its own. Of flag,
variable, file and built-in the first that is given wins, and every value knows who set it. A wrong flag is an error of one
line; a wrong variable warns once and leaves the built-in, because it may have been set for something else. Those of
the command tool were set for it alone, by the human whose limits they are: there a wrong one is an error too.

This module is read before the child is spawned: it imports nothing that takes time, and how a value is read
(`option_kinds`, `units`) only where there is a value. That is still before the spawn, never under a live run.
"""

import os

from longwatch.errors import UsageError
from longwatch.option_table import OPTIONS, SETTERS, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    #: What the command line said: option, the flag as it was written, its text (a flag's is yes or no).
    Said = tuple[Option, str, str]
    #: What a file says of options, by their names: the value, and the place where it stands (`longwatch.toml:3`).
    Told = Mapping[str, tuple[Any, str]]
    #: Who reads it: asked for a path, a verb, and the name of the run if it was given one.
    Reader = Callable[[str, str, str | None], Told]

RUN_OPTIONS: tuple[Option, ...] = tuple(option for option in OPTIONS if "run" in option.verbs)
DEFAULT, PRESET, FILE, VARIABLE, FLAG = SETTERS
_USAGE = {
    "run": "run: no command to run; write longwatch run [OPTIONS] -- COMMAND [ARG]...",
    "timeout": "timeout: {} missing; write longwatch timeout [OPTIONS] DURATION COMMAND [ARG]...",
    "tool": "tool: no command to run; write longwatch tool [OPTIONS] -- COMMAND [ARG]...",
}
#: The verbs whose variables are refused like flags.
_STRICT = ("tool", "mcp")


class Values:
    """The value of every option of a verb, and who set it. Attributes are names with underscores: `values.log_max`.

    `warnings` are lines about variables that were refused, without our name in front.
    """

    __slots__ = ("_file", "_given", "_options", "warnings")

    def __init__(self, options: "Sequence[Option]") -> None:
        self._options = {option.name: option for option in options}
        self._file: dict[str, tuple[Any, str]] = {}
        self._given: dict[str, tuple[str, object]] = {}
        self.warnings: list[str] = []

    @property
    def options(self) -> "Iterable[Option]":
        """The options that there are, in the order of the table."""
        return self._options.values()

    def get(self, name: str) -> "Any":
        """Return the value of an option: ms, bytes, a signal's number, text, bool; 0 is off, None is unset."""
        told = self._file.get(name)
        if name not in self._given:
            return self._options[name].default if told is None else told[0]
        value = self._given[name][1]
        # Of what has entries (budgets of tools, steps of limits) each stands for itself, as the keys of the file do.
        return {**told[0], **value} if told is not None and isinstance(value, dict) else value

    def source(self, name: str) -> str:
        """Return who set it: `default`, `preset`, `file`, `variable` or `flag`."""
        return self._given[name][0] if name in self._given else FILE if name in self._file else DEFAULT

    def place(self, name: str) -> str:
        """Return where in the file it stands: `longwatch.toml:3`. Only for what the file says."""
        return self._file[name][1]

    def own(self, name: str) -> "Any":
        """Return what somebody said beside the file; None where nobody did."""
        return self._given[name][1] if name in self._given else None

    def put(self, name: str, value: object, source: str) -> None:
        """Set an option's value; one that adds up is joined with what the same source said before."""
        before = self._given.get(name, (source, None))
        if before[0] == source and self._options[name].repeatable:
            value = _joined(before[1], value)
        self._given[name] = (source, value)

    def take(self, told: "Told") -> None:
        """Take what a file says; it holds where nobody else says anything."""
        self._file = {name: each for name, each in told.items() if name in self._options}

    def take_file(self, verb: str, read: "Reader") -> None:
        """Read the file that `--config` names, if it names one. Raises UsageError with a line for all that is wrong."""
        path = self.get("config")
        if path is not None:
            self.take(read(path, verb, self.get("name") if "name" in self._options else None))

    def drop(self, name: str) -> None:
        """Let go of what the strongest said."""
        if self._given.pop(name, None) is None:
            self._file.pop(name, None)

    def __getattr__(self, name: str) -> "Any":
        try:
            return self.get(name.replace("_", "-"))
        except KeyError:
            raise AttributeError(name) from None


def options_for(verb: str) -> tuple[Option, ...]:
    """Return the options of a verb in the order of the table."""
    return tuple(option for option in OPTIONS if verb in option.verbs)


def parse(
    verb: str, argv: "Sequence[str]", environ: "Mapping[str, str] | None" = None, read: "Reader | None" = None
) -> tuple[Values, list[str]]:
    """Read the words behind a verb; return the values and the operands (of `timeout` the duration comes first).

    `run` and `tool` also read the variables of `environ` (None: those of this process), and by `read` the file that
    `--config` names. `--help` and `--version` end the reading, and nothing is missing then. Raises UsageError for a
    wrong flag, a wrong file, and a wrong variable of `tool`.
    """
    options = options_for(verb)
    said, operands = _split(verb, options, argv)
    values = Values(options)
    for option, flag, text in said:
        values.put(option.name, _refused_as(f"{flag} ", option, text), FLAG)
    if values.help or values.version:
        return values, []
    if read is not None:
        values.take_file(verb, read)
    if verb != "timeout":
        _read_variables(values, os.environ if environ is None else environ, strict=verb in _STRICT)
    if verb == "run":
        _check(values)
    if len(operands) < (2 if verb == "timeout" else 1):
        raise UsageError(_USAGE[verb].format("COMMAND" if operands else "DURATION and COMMAND"))
    return values, operands


def of_flags(
    verb: str,
    flags: "Mapping[str, object]",
    environ: "Mapping[str, str] | None" = None,
    read: "Reader | None" = None,
) -> Values:
    """Return the values of a verb whose flags click has read (None: not given), with the variables of `tool` and `mcp`.

    A watched process has all that a run has. Raises UsageError for a variable or a file that is wrong.
    """
    values = Values(RUN_OPTIONS if verb == "watch" else options_for(verb))
    for name, value in flags.items():
        if value is not None:
            values.put(name.replace("_", "-"), value, FLAG)
    if read is not None:
        values.take_file(verb, read)
    if verb in _STRICT:
        _read_variables(values, os.environ if environ is None else environ, strict=True)
    return values


def from_environment(environ: "Mapping[str, str]", verb: str = "run", told: "Told | None" = None) -> Values:
    """Return what the variables of `environ`, and a file, say to the library (`run`) or to a guard, without flags.

    Raises nothing: a wrong variable warns (`Values.warnings`).
    """
    values = Values(options_for(verb))
    values.take(told or {})
    _read_variables(values, environ)
    if verb == "run":
        _check(values)
    return values


#: The variables of each verb that was asked for.
_VARIABLES: dict[str, set[str | None]] = {}


def child_environment(
    environ: "Mapping[str, str]", run_id: str, attempt: int = 1, verb: str = "run"
) -> dict[str, str]:
    """Return the environment of a supervised child: without the verb's options, with the run's id (`outer/inner`).

    Those of other verbs reach it: an agent under `run` may start the `mcp` whose limits the user has set.
    """
    ours = _VARIABLES.get(verb)
    if ours is None:
        ours = _VARIABLES[verb] = {option.variable for option in options_for(verb)}
    child = {name: value for name, value in environ.items() if name not in ours}
    child["LONGWATCH_RUN_ID"] = whole_id(environ, run_id)
    child["LONGWATCH_ATTEMPT"] = str(attempt)
    return child


def whole_id(environ: "Mapping[str, str]", run_id: str) -> str:
    """Return the mark that every process of a run carries: inside another run both ids, `outer/inner`."""
    outer = environ.get("LONGWATCH_RUN_ID")
    return f"{outer}/{run_id}" if outer else run_id


def recorded(argv: "Sequence[str]") -> list[str]:
    """Return what may be written down of a command: the program, and the names of its flags."""
    return [argv[0], *flag_names(argv[1:])]


def flag_names(arguments: "Sequence[str]") -> list[str]:
    """Return the names of the flags in a command line: `--model=x` is `--model`, `-psecret` is `-p`.

    What does not look like a flag's name is left out, so that no prompt and no password can pass for one.
    """
    names = []
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0]
        bare = name[2:].replace("-", "").replace("_", "")
        if name.startswith("--") and len(name) <= 40 and bare.isascii() and bare.isalnum():
            names.append(name)
        elif name[:1] == "-" and name[1:2].isascii() and name[1:2].isalpha():
            names.append(name[:2])
    return names


def _split(verb: str, options: "Sequence[Option]", argv: "Sequence[str]") -> "tuple[list[Said], list[str]]":
    """Tell options from operands; texts are not read yet, so that the first wrong word is the one named."""
    flags = {flag: option for option in options for flag in option.flags}
    said: list[Said] = []
    words = list(argv)
    words.reverse()
    while words:
        word = words.pop()
        if word == "--":
            break
        if word[:1] != "-" or word == "-":
            words.append(word)
            break
        said += (_long if word[:2] == "--" else _short)(verb, flags, word, words)
        if said[-1][0].name in ("help", "version"):
            break
    words.reverse()
    return said, words


def _long(verb: str, flags: dict[str, Option], word: str, words: list[str]) -> "list[Said]":
    flag, equals, text = word.partition("=")
    flag = _full(verb, flags, flag)
    option = flags[flag]
    if option.kind == "flag":
        if equals:
            raise UsageError(f"{flag} takes no value; write {flag} alone")
        return [(option, flag, "no" if flag.startswith("--no-") else "yes")]
    return [(option, flag, text if equals else _next(option, flag, words))]


def _short(verb: str, flags: dict[str, Option], word: str, words: list[str]) -> "list[Said]":
    """Read `-v`, `-k5s`, `-k 5s` and several in one: `-vk5s`."""
    said: list[Said] = []
    for at, letter in enumerate(word[1:], 2):
        flag = _full(verb, flags, "-" + letter)
        option = flags[flag]
        if option.kind != "flag":
            said.append((option, flag, word[at:] or _next(option, flag, words)))
            break
        said.append((option, flag, "yes"))
    return said


def _full(verb: str, flags: dict[str, Option], flag: str) -> str:
    """Return the flag itself; `timeout` knows unique beginnings too, as getopt_long does. Raises UsageError."""
    if flag in flags:
        return flag
    begun = [name for name in flags if name.startswith(flag)] if verb == "timeout" and len(flag) > 2 else []
    if len(begun) == 1:
        return begun[0]
    from longwatch.option_doubts import unknown  # noqa: PLC0415 - see the module's docstring

    raise unknown(verb, flag, flags, begun)


def _next(option: Option, flag: str, words: list[str]) -> str:
    if not words:
        raise UsageError(f"{flag} needs a value; write {flag} {option.metavar}")
    return words.pop()


def _refused_as(prefix: str, option: Option, text: str) -> object:
    """Convert; a refusal names where the text stood."""
    if option.kind == "flag" and text in ("yes", "no"):
        return text == "yes"
    from longwatch.option_kinds import convert  # noqa: PLC0415 - see the module's docstring

    try:
        return convert(option, text)
    except UsageError as error:
        raise UsageError(f"{prefix}{error}") from None


def _read_variables(values: Values, environ: "Mapping[str, str]", *, strict: bool = False) -> None:
    """Take each variable that no flag overrides; an empty one is unset, a wrong one warns, or is refused if `strict`."""
    for option in values.options:
        variable = option.variable
        text = environ.get(variable, "").strip() if variable else ""
        if not text or values.source(option.name) == FLAG:
            continue
        try:
            for part in text.split(",") if option.repeatable else [text]:
                values.put(option.name, _refused_as(f"{variable}=", option, part), VARIABLE)
        except UsageError as error:
            if strict:
                raise
            from longwatch.option_doubts import fall_back  # noqa: PLC0415 - see the module's docstring

            fall_back(values, option, str(error))


def _check(values: Values) -> None:
    """Refuse what contradicts itself; few runs say what could."""
    if values.idle_action == "nudge" or values.action or values.check:
        from longwatch.option_doubts import check  # noqa: PLC0415 - see the module's docstring

        check(values)


def _joined(before: object, value: object) -> object:
    if isinstance(before, dict) and isinstance(value, dict):
        return before | value
    if isinstance(before, tuple) and isinstance(value, tuple):
        return before + tuple(item for item in value if item not in before)
    return value
