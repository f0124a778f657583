"""Which preset fits a command line, and what it would make of it.

A program is recognised by its name, also behind wrappers that start it (`env`, `npx`, `uvx`, `nice`). That changes
nothing of how it is started; only a preset that was named adds words, and then once and visibly.
"""

import os

from longwatch.errors import UsageError
from longwatch.options import DEFAULT, PRESET
from longwatch.preset_table import GO_ON, PRESETS, SESSION, Addition, Preset, Resume
from longwatch.units import nearest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from longwatch.options import Values

#: What stands before the program that it starts: its flags that take a value, and the subcommands that belong to it.
_WRAPPERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "env": (("-u", "--unset", "-C", "--chdir"), ()),
    "nice": (("-n", "--adjustment"), ()),
    "ionice": (("-c", "-n", "-p"), ()),
    "nohup": ((), ()),
    "setsid": ((), ()),
    "stdbuf": (("-i", "-o", "-e"), ()),
    "time": (("-f", "-o"), ()),
    "npx": (("-p", "--package"), ()),
    "bunx": ((), ()),
    "uvx": (("--from", "--with", "-p", "--python"), ()),
    "uv": (("--from", "--with", "-p", "--python"), ("run", "tool")),
    "pnpm": ((), ("dlx", "exec")),
    "yarn": ((), ("dlx", "exec")),
}
NONE = "none"


def names() -> tuple[str, ...]:
    """Return the names of all presets, in the order of the table."""
    return tuple(preset.name for preset in PRESETS)


def named(name: str) -> Preset:
    """Return the preset of a name; `claude-code` is claude. Raises UsageError with the nearest name."""
    found = next((preset for preset in PRESETS if name == preset.name or name in preset.programs), None)
    if found is None:
        guess = nearest(name, names())
        hint = f"did you mean {guess}?" if guess else f"presets are {', '.join(names())}, and none"
        raise UsageError(f"{shown(name)}: no such preset; {hint}")
    return found


def recognised(argv: "Sequence[str]") -> Preset | None:
    """Return the preset of the program that a command line starts; None for one that nobody knows."""
    words = argv[program_at(argv) :]
    if not words:
        return None
    name = _bare(words[0])
    verb = next((word for word in words[1:] if word[:1] not in "-+"), "")
    return next((p for p in PRESETS if name in p.programs or f"{name} {verb}" in p.programs), None)


def program_at(argv: "Sequence[str]") -> int:
    """Return the place of the program itself, behind the wrappers that start it; len(argv) if there is none."""
    at = 0
    while at < len(argv):
        wrapper = _WRAPPERS.get(_bare(argv[at]))
        if wrapper is None:
            return at
        inner = _behind(argv, at + 1, *wrapper)
        if inner is None:
            return at
        at = inner
    return at


def words_before() -> tuple[str, ...]:
    """Return the names of the wrappers that a known program may stand behind."""
    return tuple(_WRAPPERS)


def _behind(argv: "Sequence[str]", at: int, valued: tuple[str, ...], verbs: tuple[str, ...]) -> int | None:
    """Skip a wrapper's own words; None where it starts nothing (`uv sync`)."""
    seen = not verbs
    while at < len(argv):
        word = argv[at]
        if word in valued:
            at += 1
        elif word in verbs:
            seen = True
        elif word[:1] != "-" and "=" not in word.split("/")[0]:
            return at if seen else None
        at += 1
    return at if seen else None


def _bare(word: str) -> str:
    """Return a program's or package's name without folder and version: `@openai/codex@latest` is `@openai/codex`."""
    if word.startswith("@"):
        scope, _, name = word.partition("/")
        return f"{scope}/{name.partition('@')[0]}"
    return os.path.basename(word).partition("@")[0].partition("==")[0]


def completed(preset: Preset, argv: "Sequence[str]") -> tuple[list[str], list[Addition]]:
    """Return a command line with what the named preset adds, and the additions that were made."""
    at = program_at(argv) + 1
    arguments = argv[at:]
    made = [addition for addition in preset.additions if _wanted(addition, arguments)]
    words = [word for addition in made for word in addition.words]
    # Behind a subcommand its own flags begin; before it they would be the program's.
    verb = next(
        (i for i, word in enumerate(arguments) if made and word in made[0].where and word[:1] != "-"), -1
    )
    at += verb + 1
    return [*argv[:at], *words, *argv[at:]], made


def _wanted(addition: Addition, arguments: "Sequence[str]") -> bool:
    given = {word.partition("=")[0] for word in arguments}
    fits = not addition.where or any(word in given for word in addition.where)
    return fits and not any(word in given for word in addition.unless)


def is_headless(preset: Preset, argv: "Sequence[str]") -> bool:
    """Return whether the program was started to work without a human."""
    return any(word.partition("=")[0] in preset.headless for word in argv[program_at(argv) + 1 :])


def resumed(
    preset: Preset, argv: "Sequence[str]", session: str, prompt: str | None = GO_ON
) -> list[str] | None:
    """Return the command line that takes a conversation up again; None where nobody knows how, or its id is missing.

    Without a `prompt` it is only opened again: nothing is said in it.
    """
    rule = preset.resume
    if rule is None or not session:
        return None
    at = program_at(argv) + 1
    words = [word for word in _without(argv[at:], rule.drop) if word not in rule.bare]
    words = _prompted(words, rule, prompt)
    place = words.index(rule.after) + 1 if rule.after in words else 0
    if rule.after and not place and not rule.anyhow:
        return None
    return [*argv[:at], *words[:place], *_filled(rule, session), *words[place:]]


def to_type(preset: Preset, argv: "Sequence[str]", session: str) -> str | None:
    """Return what a human types to take a conversation up again; None where that is not known.

    Nothing of the old command line is in it but the program: neither a prompt nor a secret.
    """
    if preset.resume is None or not session:
        return None
    at = program_at(argv)
    typed = argv[at] if at < len(argv) else ""
    # A package is no program without who fetches it.
    itself = os.path.basename(typed) == preset.programs[0] and typed[:1] != "@"
    program = typed if itself else preset.programs[0]
    return " ".join(_quoted(word) for word in (program, *_filled(preset.resume, session)))


def lend(preset: Preset, values: "Values", argv: "Sequence[str]") -> tuple[str, ...]:
    """Set the limits of a preset where nobody has named any; return the tools whose budgets are the preset's."""
    # Who named a window of silence did not mean it to wait for a first sign.
    left_out = {"first"} if values.source("idle") not in (DEFAULT, PRESET) else set()
    if is_conversation(argv):
        left_out.add("linger")  # it has many results, and stays after each
    for name, setting in preset.limits.items():
        if name not in left_out:
            _lend(values, name, setting.window)
    if not preset.call:
        return ()
    given = values.call if values.source("call") != DEFAULT else {}
    budgets = {tool: setting.window for tool, setting in preset.call.items() if tool not in given}
    values.put("call", {**budgets, **given}, values.source("call") if given else PRESET)
    return tuple(budgets)


def _lend(values: "Values", name: str, window: int) -> None:
    if values.source(name) == DEFAULT:
        values.put(name, window, PRESET)


def is_conversation(argv: "Sequence[str]") -> bool:
    """Return whether more is said to the program while it runs, so that no result of it is known to be the final one."""
    arguments = " ".join(argv[program_at(argv) + 1 :]).replace("=", " ")
    return "--input-format stream-json" in arguments


def _filled(rule: Resume, session: str) -> list[str]:
    return [session if word == SESSION else word for word in rule.words]


def _quoted(word: str) -> str:
    """Quote as for a shell (`shlex` would load `re`)."""
    plain = word.replace("-", "").replace("_", "").replace(".", "").replace("/", "").replace("@", "")
    return word if plain.isascii() and plain.isalnum() else "'" + word.replace("'", "'\\''") + "'"


def _without(words: "Sequence[str]", flags: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in flags:
            skip = True
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept


def _prompted(words: list[str], rule: Resume, prompt: str | None) -> list[str]:
    """Replace the prompt by the next one: behind its flag, or where it stands alone; where there is none add it."""
    said = [] if prompt is None else [prompt]
    for at, word in enumerate(words):
        flag, equals, _ = word.partition("=")
        if flag in rule.prompt:
            if equals:
                return [*words[:at], flag if prompt is None else f"{flag}={prompt}", *words[at + 1 :]]
            if at + 1 < len(words) and words[at + 1][:1] != "-":
                return [*words[: at + 1], *said, *words[at + 2 :]]
    alone = _alone(words, rule)
    if alone:
        return [*words[: alone[-1]], *said, *words[alone[-1] + 1 :]]
    return words if rule.by_flag else [*words, *said]


def _alone(words: list[str], rule: Resume) -> list[int]:
    """Return the places of words that are neither a flag, nor a flag's value, nor the subcommand."""
    found: list[int] = []
    values = 0
    for at, word in enumerate(words):
        if word[:1] == "-" and word != "-":
            values = -1 if f"{word}..." in rule.valued else int(word in rule.valued)
        elif values:
            values -= values > 0
        elif word != rule.after:
            found.append(at)
    return found


__all__ = [
    "NONE",
    "completed",
    "is_conversation",
    "is_headless",
    "lend",
    "named",
    "names",
    "program_at",
    "recognised",
    "resumed",
    "to_type",
    "words_before",
]
