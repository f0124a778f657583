"""The kinds of values in the file: each is a type of Python, a reader, and what an editor's schema says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic_core import PydanticCustomError, core_schema

from longwatch.config import readers, words
from longwatch.config.readers import Setting
from longwatch.config.variables import UnsetError
from longwatch.core.harness import QUEUE, REPLACE, SKIP
from longwatch.core.restarts import ALWAYS, NO, ON_FAILURE, UNLESS_STOPPED
from longwatch.core.spec import ACTIONS, RESTART
from longwatch.errors import UsageError
from longwatch.notices import (
    EVENTS,
    LEAST_DEAD_MAN,
    LEAST_TIMEOUT,
    MOST_COOLDOWN,
    MOST_TIMEOUT,
)
from longwatch.option_kinds import signal_names
from longwatch.option_table import SOURCES
from longwatch.units import CENTURY, DURATION_UNITS, EXBIBYTES, format_duration, format_size

Schema = dict[str, Any]
SPAN_PATTERN = r"^(0|off|(?=[\d.])([\d.]+d)?([\d.]+h)?([\d.]+m)?([\d.]+s)?([\d.]+ms)?)$"
SIZE_PATTERN = r"^(0|off|[\d.]+([kKmMgGtT]([iI]?[bB])?|[bB]))$"
DAY = DURATION_UNITS["d"]
MIB = 1 << 20
VERIFICATIONS = ("bearer", "hmac-sha256", "github", "gitlab", "gitea", "standard-webhooks")


class Reads:
    """A reader and a schema, where pydantic looks for them."""

    def __init__(self, read: Callable[[Any, Setting], object], schema: Schema) -> None:
        self._read = read
        self._schema = schema

    def _checked(self, value: object, info: core_schema.ValidationInfo[Any]) -> object:
        refusals: list[tuple[int | None, str]]
        try:
            return self._read(value, info.context)
        except (UsageError, UnsetError) as error:
            refusals = [(None, str(error))]
        except readers.SeveralError as error:
            refusals = [*error.refusals]
        raise PydanticCustomError("longwatch", "refused", {"refusals": refusals})

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> core_schema.CoreSchema:
        """Let the reader alone decide."""
        return core_schema.with_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, _core: object, _handler: object) -> Schema:
        """Describe it."""
        return dict(self._schema)


class OneOf(Reads):
    """One word out of a closed set; `meant` are other words for some of them."""

    def __init__(self, what: str, choices: Sequence[str], meant: dict[str, str] | None = None) -> None:
        super().__init__(words.one_of(what, choices, meant), {"enum": [*choices, *(meant or {})]})


class SomeOf(Reads):
    """A list of words out of a closed set."""

    def __init__(self, what: str, choices: Sequence[str]) -> None:
        super().__init__(words.some_of(what, choices), {"type": "array", "items": {"enum": list(choices)}})


class Bounded(Reads):
    """A duration within bounds."""

    def __init__(self, least: int, most: int, told: str = "") -> None:
        told = told or f"write {format_duration(least)} to {format_duration(most)}"
        super().__init__(readers.between(least, most, told), _BOUNDED)


class Sized(Reads):
    """A size within bounds."""

    def __init__(self, least: int, most: int) -> None:
        told = (
            f"write {format_size(least)} or more"
            if most == EXBIBYTES
            else f"write at most {format_size(most)}"
        )
        super().__init__(readers.size_between(least, most, told), {"type": "string", "pattern": SIZE_PATTERN})


class Whole(Reads):
    """A whole number within bounds."""

    def __init__(self, least: int, most: int = readers.BILLION) -> None:
        schema = {"type": "integer", "minimum": least, "maximum": most}
        super().__init__(readers.whole(least, most), schema)


def _several(item: Schema) -> Schema:
    return {"anyOf": [item, {"type": "array", "items": item}]}


_TEXT: Schema = {"type": "string", "minLength": 1}
_BOUNDED: Schema = {"type": "string", "pattern": SPAN_PATTERN}
_SPAN: Schema = {"anyOf": [_BOUNDED, {"const": 0}]}
_SIZE: Schema = {"anyOf": [{"type": "string", "pattern": SIZE_PATTERN}, {"const": 0}]}
_WORDS: Schema = {"type": "array", "items": {"type": "string"}}
_COUNT: Schema = {"anyOf": [{"type": "integer", "minimum": 0, "not": {"const": 1}}, {"const": "off"}]}
_SIGNAL: Schema = {"anyOf": [{"enum": list(signal_names())}, {"type": "integer", "minimum": 1}]}
_SOURCE: Schema = {"anyOf": [{"enum": list(SOURCES)}, {"type": "string", "pattern": "^file:."}]}
_SECRET: Schema = {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}

Span = Annotated[int, Reads(readers.read_span, _SPAN)]
KillAfter = Annotated[int, Bounded(1, CENTURY, "a stop has to end; write 1ms to kill at once")]
Bytes = Annotated[int, Reads(readers.read_size, _SIZE)]
Body = Annotated[int, Sized(1, 25 * MIB)]
LedgerSize = Annotated[int, Sized(16 * MIB, EXBIBYTES)]
Retention = Annotated[int, Bounded(DAY, CENTURY, "write 1d or more")]
CatchUp = Annotated[int, Reads(readers.read_catch_up, {"anyOf": [*_SPAN["anyOf"], {"type": "boolean"}]})]
Cooldown = Annotated[
    int, Bounded(0, MOST_COOLDOWN, f"write at most {format_duration(MOST_COOLDOWN)}, or off")
]
ChannelTimeout = Annotated[int, Bounded(LEAST_TIMEOUT, MOST_TIMEOUT)]
DeadManEvery = Annotated[int, Bounded(LEAST_DEAD_MAN, DAY)]
Period = Annotated[int, Bounded(1, CENTURY, "write how long, such as 10m")]
Poll = Annotated[int, Reads(readers.read_span, _SPAN)]
Money = Annotated[float, Reads(readers.read_money, {"type": "number", "exclusiveMinimum": 0})]
Count = Annotated[int, Reads(readers.read_count, _COUNT)]
Rate = Annotated[int, Reads(readers.read_rate, {"type": "string", "pattern": r"^[0-9]+ */ *min(ute)?$"})]
Some = Annotated[int, Whole(1)]
OrNone = Annotated[int, Whole(0)]
Flag = Annotated[bool, Reads(words.read_flag, {"type": "boolean"})]
Text = Annotated[str, Reads(words.read_text, _TEXT)]
Name = Annotated[str, Reads(words.read_name, {**_TEXT, "maxLength": 40})]
Texts = Annotated[tuple[str, ...], Reads(words.read_texts, _several(_TEXT))]
Regexes = Annotated[
    tuple[str, ...], Reads(words.read_regexes, _several({"type": "string", "format": "regex"}))
]
Words = Annotated[tuple[str, ...], Reads(words.read_words, {"anyOf": [{"type": "string"}, _WORDS]})]
Command = Annotated[tuple[str, ...], Reads(words.read_command, {"anyOf": [_TEXT, {**_WORDS, "minItems": 1}]})]
Program = Annotated[tuple[str, ...], Reads(words.read_program, {"anyOf": [_TEXT, {**_WORDS, "minItems": 1}]})]
Preset = Annotated[str, Reads(words.read_preset, {"enum": list(words.preset_words())})]
Value = Annotated[str, Reads(words.read_value, {"type": "string"})]
Variable = Annotated[str, Reads(words.read_variable_name, _TEXT)]
Secret = Annotated[str, Reads(words.read_secret, _SECRET)]
Folder = Annotated[str, Reads(words.read_path, _TEXT)]
SecretFile = Annotated[str, Reads(words.read_path, _TEXT)]
Files = Annotated[tuple[str, ...], Reads(words.read_paths, _several(_TEXT))]
Urls = Annotated[tuple[str, ...], Reads(words.read_filled_texts, _several(_TEXT))]
WebUrl = Annotated[str, Reads(words.read_web_url, {"type": "string", "pattern": r"^(https?://|\$\{)"})]
Address = Annotated[str, Reads(words.read_address, {"type": "string", "pattern": r":[0-9]+$"})]
Signal = Annotated[int, Reads(words.read_signal, _SIGNAL)]
Sources = Annotated[tuple[str, ...], Reads(words.read_sources, _several(_SOURCE))]
Schedule = Annotated[tuple[str, ...], Reads(words.read_schedule, _several(_TEXT))]
Hours = Annotated[tuple[str, ...], Reads(words.read_hours, _several({"type": "string", "pattern": r"-"}))]
Zone = Annotated[str, Reads(words.read_zone, _TEXT)]
Action = Annotated[str, OneOf("action", (*ACTIONS, RESTART))]
Policy = Annotated[str, OneOf("policy", (ALWAYS, UNLESS_STOPPED, ON_FAILURE, NO), {"never": NO})]
Overlap = Annotated[str, OneOf("way", (SKIP, QUEUE, REPLACE))]
OnHold = Annotated[str, OneOf("way", (QUEUE, SKIP))]
TriggerKind = Annotated[str, OneOf("kind", ("webhook", "channel"))]
Verification = Annotated[str, OneOf("verification", VERIFICATIONS, {"forgejo": "gitea"})]
Events = Annotated[tuple[str, ...], SomeOf("event", tuple(EVENTS))]
