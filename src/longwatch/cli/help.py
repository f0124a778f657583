"""The help text of `run`, `timeout` and `tool`, plain, from the option table."""

import textwrap

from longwatch.option_kinds import describe
from longwatch.option_table import GROUPS, Option
from longwatch.options import options_for

WIDTH = 80
_COLUMN = 29
_HEADINGS = {
    "limits": "Limits (spans such as 30s, 5m, 1h30m; off or 0 switches one off):",
    "evidence": "What counts as progress:",
    "stopping": "How it is stopped:",
    "program": "The program:",
    "records": "What is kept:",
    "general": "General:",
}
_USAGES = {
    "run": "longwatch run [OPTIONS] [--] COMMAND [ARG]...",
    "timeout": "longwatch timeout [OPTIONS] DURATION COMMAND [ARG]...",
    "tool": "longwatch tool [OPTIONS] [--] COMMAND [ARG]...",
}
_INTRODUCTIONS = {
    "run": "Run a command; stop it, with everything it started, when it makes no progress. Options end at the "
    "command: what follows it belongs to it. Without a limit nothing is stopped: 5 minutes of silence are noted "
    "and told. A limit that you name stops.",
    "timeout": "Run a command and send it a signal when it still runs after DURATION: a number, with s (seconds, "
    "also without a letter), m, h or d behind it; 0 disables. As GNU timeout, but the whole tree ends.",
    "tool": "Run a command for a model and print one line of JSON on stdout: how it ended, and what it said. "
    "Everything it started is gone then. It reads our stdin, unless that is a terminal. On a terminal, stderr shows a "
    "copy of its output.",
}
_ENDINGS = {
    "run": "Each option but --config has a variable, LONGWATCH_IDLE for --idle; a flag wins. Exit status: the command's own; "
    "124 when a limit stopped it, 125 when longwatch failed, 126 when the command cannot be executed, 127 when "
    "it is not found, 128+N when it died of signal N.",
    "timeout": "Exit status: the command's own; 124 when the time was over, 125 when longwatch failed, 126 when "
    "the command cannot be executed, 127 when it is not found, 137 when it had to be killed.",
    "tool": "Each option but --config has a variable, LONGWATCH_TOOL_TIMEOUT for --timeout; a flag wins. Exit status: 0 when the "
    "result was printed, whatever became of the command; 1 when it could not be; 2 for wrong options or variables. A "
    "signal to longwatch stops the command; the result is printed, and then longwatch ends by that signal.",
}


def help_text(verb: str) -> str:
    """Return the help of `run`, `timeout` or `tool`, ending with a line break."""
    parts = [f"Usage: {_USAGES[verb]}", _wrapped(_INTRODUCTIONS[verb])]
    options = options_for(verb)
    for group in GROUPS:
        rows = [_row(option) for option in options if option.group == group]
        if rows:
            parts.append(
                "\n".join([_HEADINGS[group] if verb != "timeout" else f"{group.capitalize()}:", *rows])
            )
    return "\n\n".join([*parts, _wrapped(_ENDINGS[verb])]) + "\n"


def spelled(option: Option) -> str:
    """Return an option as it is written: `-k, --kill-after DURATION`."""
    return ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")


def default_text(option: Option) -> str:
    """Return what holds when nobody sets the option; empty where that goes without saying."""
    if option.default is None or option.default is False:
        return ""
    return describe(option, option.default)


def _row(option: Option) -> str:
    left = ("" if len(option.flags[0]) == 2 else "    ") + spelled(option)
    text = option.help
    if option.choices:
        text += f" One of {', '.join(option.choices)}."
    if option.repeatable:
        text += " Repeatable."
    default = default_text(option)
    text += f" [{default}]" if default else ""
    lines = textwrap.wrap(text, WIDTH - _COLUMN)
    head = f"  {left:<{_COLUMN - 2}}"
    first = head + lines.pop(0) if len(left) < _COLUMN - 2 else head.rstrip()
    return "\n".join([first, *(" " * _COLUMN + line for line in lines)])


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH))
