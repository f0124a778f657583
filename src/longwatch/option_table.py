"""Every option once, as data: flags, variable, key, help, default and why all derive from these rows.

Read before the child is spawned, so a row is one plain record and nothing is computed here. `options` parses by
this table; `cli.help`, `config explain`, the JSON Schema and the reference pages print it.
"""

#: Where progress can be seen without knowing the program; `file:GLOB` beside them.
SOURCES = ("output", "stdout", "stderr", "screen")

#: Groups in the order in which help shows them.
GROUPS = ("limits", "evidence", "stopping", "program", "records", "general")


class Option:
    """One option. `default` is a parsed value: ms, bytes, a signal's number, None where nothing is set.

    `kind` says how its text is read (`option_kinds.READERS`); `verbs` which verbs have it; `why` argues the default.
    """

    __slots__ = ("choices", "default", "flags", "group", "help", "kind", "metavar", "name", "verbs", "why")

    def __init__(
        self, name: str, flags: tuple[str, ...], kind: str, metavar: str, default: object, group: str,
        verbs: tuple[str, ...], help: str, why: str, choices: tuple[str, ...] = (),  # noqa: A002
    ) -> None:  # fmt: skip
        self.name = name
        self.flags = flags
        self.kind = kind
        self.metavar = metavar
        self.default = default
        self.group = group
        self.verbs = verbs
        self.help = help
        self.why = why
        self.choices = choices

    @property
    def variable(self) -> str | None:
        """The environment variable that sets it for `run` and the library; None where only a flag does."""
        return (
            "LONGWATCH_" + self.name.upper().replace("-", "_") if self.key and "run" in self.verbs else None
        )

    @property
    def key(self) -> str | None:
        """Its key in a file; None for what asks a question instead of setting something."""
        return None if self.name in ("help", "version") else self.name.replace("-", "_")

    @property
    def repeatable(self) -> bool:
        """Whether giving it again adds instead of replacing."""
        return self.kind in ("sources", "statuses")


_RUN = ("run",)
_WATCH = ("run", "watch")
_TIMEOUT = ("timeout",)
_BOTH = ("run", "timeout")

OPTIONS: tuple[Option, ...] = (
    Option(
        "idle", ("--idle",), "duration", "DURATION", 300_000, "limits", _WATCH,
        "Stop when there was no progress for this long.",
        "In recorded agent sessions one gap in a thousand is longer than 5 minutes while work goes on. So the "
        "built-in one only notes and notifies; a window that you name stops.",
    ),
    Option(
        "first", ("--first",), "duration", "DURATION", 0, "limits", _WATCH,
        "Stop when the first progress does not come within this time.",
        "Off: how long a program may load before it says anything is known to its user only.",
    ),
    Option(
        "ceiling", ("--ceiling",), "duration", "DURATION", 0, "limits", _WATCH,
        "Stop after this much time, moved by pauses that the provider reports.",
        "Off: elapsed time alone never ends a run unless you ask for it by name.",
    ),
    Option(
        "timeout", ("--timeout",), "duration", "DURATION", 0, "limits", _WATCH,
        "Stop after this much time, whatever happens.",
        "Off: elapsed time alone never ends a run unless you ask for it by name.",
    ),
    Option(
        "soft", ("--soft",), "duration", "DURATION", 0, "limits", _WATCH,
        "Warn once after this much time and mark the run resumable.",
        "Off: a budget is a wish of the user, never a property of the program.",
    ),
    Option(
        "idle-action", ("--idle-action",), "choice", "ACTION", "stop", "limits", _WATCH,
        "The most that a reached idle limit may do.",
        "A limit that somebody named should hold without anybody awake; the built-in window only notifies.",
        ("stop", "nudge", "notify", "none"),
    ),
    Option(
        "nudge", ("--nudge",), "text", "TEXT", None, "limits", _RUN,
        "Type this line into the program when it idles, and wait one more window.",
        "Unset: what a stuck program understands differs from one to the next; without a text the step is skipped.",
    ),
    Option(
        "allow-quiet", ("--allow-quiet",), "duration", "DURATION", 3_600_000, "limits", _RUN,
        "How much silence `longwatch quiet` may claim in this run, in all.",
        "One hour covers a long build or test run; it is bounded because the caller is the one being watched.",
    ),
    Option(
        "progress", ("--progress",), "sources", "SOURCE", ("output",), "evidence", _WATCH,
        "What counts as progress: output, stdout, stderr, screen or file:GLOB; the newest counts.",
        "Bytes on either stream: the one sign that every program gives. Naming a source replaces it.",
    ),
    Option(
        "not-progress", ("--not-progress",), "text", "REGEX", None, "evidence", _RUN,
        "Lines that match show life but are no progress.",
        "Unset: which lines are keep-alives only the user can tell.",
    ),
    Option(
        "poll", ("--poll",), "duration", "DURATION", 1_000, "evidence", _WATCH,
        "How often sampled sources (files, screen) are looked at; off: only when a limit comes due.",
        "A second is late for no limit in practice and costs nothing; exit and output are never polled.",
    ),
    Option(
        "signal", ("-s", "--signal"), "signal", "SIGNAL", 15, "stopping", _WATCH,
        "The signal that asks the program to end, by name or number.",
        "TERM, as timeout, systemd and Docker send: programs clean up on it.",
    ),
    Option(
        "kill-after", ("-k", "--kill-after"), "span", "DURATION", 10_000, "stopping", _WATCH,
        "How long the tree may take to end before it is killed.",
        "supervisord and Docker give 10 s; shorter leaves lock files and half-written work behind.",
    ),
    Option(
        "before-stop", ("--before-stop",), "command", "CMD", None, "stopping", _WATCH,
        "Run this before a limit stops the program, 60 s at most; exit status 75 vetoes.",
        "Unset: a work tree that longwatch did not make is never touched.",
    ),
    Option(
        "keep-leftovers", ("--keep-leftovers",), "flag", "", False, "stopping", _RUN,
        "Let processes live that the program left behind when it ended by itself.",
        "Off: a finished run leaves nothing running; servers started on purpose are the exception.",
    ),
    Option(
        "exit-code", ("--exit-code",), "statuses", "REASON=N", None, "stopping", _WATCH,
        "Exit with N when the run ends for REASON, such as idle=75.",
        "Unset: 124 for every limit as timeout does, else the program's own status.",
    ),
    Option(
        "pty", ("--pty", "--no-pty"), "flag", "", None, "program", _RUN,
        "Give the program a terminal of its own, or never.",
        "Terminal in, terminal out: it gets one where our stdin and stdout are terminals.",
    ),
    Option(
        "stdin", ("--stdin",), "choice", "WHERE", "inherit", "program", _RUN,
        "Where the program reads from: ours, or nothing.",
        "Inherited, as under every wrapper; null helps what waits for input that never comes.",
        ("inherit", "null"),
    ),
    Option(
        "name", ("--name",), "name", "NAME", None, "records", _WATCH,
        "A name for the run in ls, why, runs and logs.",
        "Unset: the program's own name.",
    ),
    Option(
        "log", ("--log",), "file", "FILE", None, "records", _RUN,
        "Append all output to a file.",
        "Unset: the first 64 KiB and the last 256 KiB are kept anyway.",
    ),
    Option(
        "log-max", ("--log-max",), "size", "SIZE", 100 << 20, "records", _RUN,
        "Move the log to FILE.1 when it grows past this size; off: never.",
        "100 MiB holds days of an agent's talk and fills no disk.",
    ),
    Option(
        "report", ("--report",), "file", "FILE", None, "records", _WATCH,
        "Write the report of the run there as JSON.",
        "Unset: every run longer than a second keeps its report in its run folder.",
    ),
    Option(
        "still-running", ("--still-running",), "duration", "DURATION", 0, "records", _RUN,
        "Print a line on stderr this often while the program is silent, for outer watchers.",
        "Off: our own lines are noise where nobody watches for silence; they never count as progress.",
    ),
    Option(
        "verbose", ("-v", "--verbose"), "flag", "", False, "general", _RUN,
        "Say on stderr what is noted, sent and skipped.",
        "Off: stderr belongs to the program until something ends.",
    ),
    Option(
        "kill-after", ("-k", "--kill-after"), "gnu-duration", "DURATION", 0, "stopping", _TIMEOUT,
        "Also send KILL if it still runs this long after the first signal.",
        "Off, as in GNU timeout.",
    ),
    Option(
        "signal", ("-s", "--signal"), "gnu-signal", "SIGNAL", 15, "stopping", _TIMEOUT,
        "The signal to send at the limit, by name or number.",
        "TERM, as in GNU timeout.",
    ),
    Option(
        "preserve-status", ("-p", "--preserve-status"), "flag", "", False, "stopping", _TIMEOUT,
        "Exit with the command's own status even when the limit was reached.",
        "Off, as in GNU timeout: 124 tells the limit from a failure.",
    ),
    Option(
        "foreground", ("-f", "--foreground"), "flag", "", False, "program", _TIMEOUT,
        "Let the command read the terminal and get its signals; its children are not timed out.",
        "Off, as in GNU timeout: only without it does nothing escape.",
    ),
    Option(
        "verbose", ("-v", "--verbose"), "flag", "", False, "general", _TIMEOUT,
        "Say on stderr which signal is sent.",
        "Off, as in GNU timeout.",
    ),
    Option(
        "help", ("-h", "--help"), "flag", "", False, "general", _BOTH,
        "Show this text and exit.", "",
    ),
    Option(
        "version", ("--version",), "flag", "", False, "general", _BOTH,
        "Show the version and exit.", "",
    ),
)  # fmt: skip
