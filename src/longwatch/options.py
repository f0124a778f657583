"""Reading options: flags, variables and built-ins, by the table in `option_table`.

Three rules. Options end at the first operand or at `--`, so that the command's own flags stay its own. Of flag,
variable and built-in the first that is given wins, and every value knows who set it. A wrong flag is an error of one
line; a wrong variable warns once and leaves the built-in, because it may have been set for something else. Those of
the command tool were set for it alone, by the human whose limits they are: there a wrong one is an error too.

This module is read before the child is spawned: it imports nothing that takes time, and how a value is read
(`option_kinds`, `units`) only where there is a value. That is still before the spawn, never under a live run.
"""

import os

from longwatch.errors import UsageError
from longwatch.option_table import OPTIONS, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    #: What the command line said: option, the flag as it was written, its text (a flag's is yes or no).
    Said = tuple[Option, str, str]

RUN_OPTIONS: tuple[Option, ...] = tuple(option for option in OPTIONS if "run" in option.verbs)
DEFAULT, PRESET, VARIABLE, FLAG = "default", "preset", "variable", "flag"
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

    __slots__ = ("_given", "_options", "warnings")

    def __init__(self, options: "Sequence[Option]") -> None:
        self._options = {option.name: option for option in options}
        self._given: dict[str, tuple[str, object]] = {}
        self.warnings: list[str] = []

    @property
    def options(self) -> "Iterable[Option]":
        """The options that there are, in the order of the table."""
        return self._options.values()

    def get(self, name: str) -> "Any":
        """Return the value of an option: ms, bytes, a signal's number, text, bool; 0 is off, None is unset."""
        return self._given[name][1] if name in self._given else self._options[name].default

    def source(self, name: str) -> str:
        """Return who set it: `default`, `preset`, `variable` or `flag`."""
        return self._given[name][0] if name in self._given else DEFAULT

    def put(self, name: str, value: object, source: str) -> None:
        """Set an option's value; one that adds up is joined with what the same source said before."""
        before = self._given.get(name, (source, None))
        if before[0] == source and self._options[name].repeatable:
            value = _joined(before[1], value)
        self._given[name] = (source, value)

    def drop(self, name: str) -> None:
        """Fall back to the built-in."""
        self._given.pop(name, None)

    def __getattr__(self, name: str) -> "Any":
        try:
            return self.get(name.replace("_", "-"))
        except KeyError:
            raise AttributeError(name) from None


def options_for(verb: str) -> tuple[Option, ...]:
    """Return the options of a verb in the order of the table."""
    return tuple(option for option in OPTIONS if verb in option.verbs)


def parse(
    verb: str, argv: "Sequence[str]", environ: "Mapping[str, str] | None" = None
) -> tuple[Values, list[str]]:
    """Read the words behind a verb; return the values and the operands (of `timeout` the duration comes first).

    `run` and `tool` also read the variables of `environ` (None: those of this process). `--help` and `--version` end
    the reading, and nothing is missing then. Raises UsageError for a wrong flag, and for a wrong variable of `tool`.
    """
    options = options_for(verb)
    said, operands = _split(verb, options, argv)
    values = Values(options)
    for option, flag, text in said:
        values.put(option.name, _refused_as(f"{flag} ", option, text), FLAG)
    if values.help or values.version:
        return values, []
    if verb != "timeout":
        _read_variables(values, os.environ if environ is None else environ, strict=verb in _STRICT)
    if verb == "run":
        _check(values)
    if len(operands) < (2 if verb == "timeout" else 1):
        raise UsageError(_USAGE[verb].format("COMMAND" if operands else "DURATION and COMMAND"))
    return values, operands


def of_flags(verb: str, flags: "Mapping[str, object]", environ: "Mapping[str, str] | None" = None) -> Values:
    """Return the values of a verb whose flags click has read (None: not given), with the variables of `tool` and `mcp`.

    Raises UsageError for a variable that is wrong.
    """
    values = Values(options_for(verb))
    for name, value in flags.items():
        if value is not None:
            values.put(name.replace("_", "-"), value, FLAG)
    if verb in _STRICT:
        _read_variables(values, os.environ if environ is None else environ, strict=True)
    return values


def from_environment(environ: "Mapping[str, str]", verb: str = "run") -> Values:
    """Return what the variables of `environ` say to the library (`run`) or to a guard, which have no flags.

    Raises nothing: a wrong variable warns (`Values.warnings`).
    """
    values = Values(options_for(verb))
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
    if begun:
        raise UsageError(f"{flag} could be {' or '.join(begun)}; write it out")
    from longwatch.units import nearest, shown  # noqa: PLC0415 - see the module's docstring

    names = [name[2:] for name in flags if name[:2] == "--"]
    guess = nearest(flag[2:], names) if flag[:2] == "--" else None
    hint = f"did you mean --{guess}?" if guess else f"longwatch {verb} --help lists all"
    raise UsageError(f"unknown option {shown(flag)}; {hint}")


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
            _fall_back(values, option, str(error))


def _fall_back(values: Values, option: Option, problem: str) -> None:
    from longwatch.option_kinds import describe  # noqa: PLC0415 - see the module's docstring

    values.drop(option.name)
    values.warnings.append(f"{problem}; the built-in is used: {describe(option, option.default)}")


def _check(values: Values) -> None:
    """Refuse what contradicts itself."""
    if not values.nudge:
        _contradiction(
            values, "idle-action", values.idle_action == "nudge", "nudge", "nothing to type; add --nudge TEXT"
        )
        nudged = next((limit for limit, action in (values.action or {}).items() if action == "nudge"), None)
        _contradiction(values, "action", nudged, f"{nudged}=nudge", "nothing to type; add --nudge TEXT")
    if not values.effect:
        _contradiction(values, "check", values.check, "COMMAND", "nothing waits for it; add --effect 10m")


def _contradiction(values: Values, name: str, found: object, word: str, problem: str) -> None:
    """Refuse a flag whose counterpart is missing; a variable warns and leaves the built-in."""
    if not found:
        return
    option = next(option for option in RUN_OPTIONS if option.name == name)
    if values.source(name) == FLAG:
        raise UsageError(f"{option.flags[0]} {word}: {problem}")
    _fall_back(values, option, f"{option.variable}={word}: {problem}")


def _joined(before: object, value: object) -> object:
    if isinstance(before, dict) and isinstance(value, dict):
        return before | value
    if isinstance(before, tuple) and isinstance(value, tuple):
        return before + tuple(item for item in value if item not in before)
    return value
