"""Every option once, as data: flags, variable, key, help, default and why all derive from these rows.

Read before the child is spawned, so a row is one plain record and nothing is computed here. `options` parses by
this table; `cli.help`, `config explain`, the JSON Schema and the reference pages print it.
"""

#: Where progress can be seen; `file:GLOB` beside them. Only of a known agent is there a `transcript`.
SOURCES = ("output", "stdout", "stderr", "screen", "transcript")

#: Groups in the order in which help shows them.
GROUPS = ("limits", "evidence", "stopping", "program", "records", "general")


#: Who may set an option, the strongest last.
SETTERS = ("default", "preset", "file", "variable", "flag")

#: What a variable's name begins with, by the first verb of an option that has variables; `run` is the library too.
PREFIXES = {
    "run": "LONGWATCH_",
    "guard": "LONGWATCH_GUARD_",
    "tool": "LONGWATCH_TOOL_",
    "mcp": "LONGWATCH_TOOL_",
}


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
        """The environment variable that sets it where the verb has variables; None where only a flag does."""
        prefix = next((PREFIXES[verb] for verb in self.verbs if verb in PREFIXES), None)
        return None if prefix is None or not self.key else prefix + self.name.upper().replace("-", "_")

    @property
    def key(self) -> str | None:
        """Its key in a file; None for what sets nothing itself."""
        return None if self.asks or self.name == "config" else self.name.replace("-", "_")

    @property
    def asks(self) -> bool:
        """Whether it asks a question instead of setting something."""
        return self.name in ("help", "version")

    @property
    def repeatable(self) -> bool:
        """Whether giving it again adds instead of replacing."""
        return self.kind in ("sources", "statuses", "folders", "budgets", "actions")


_RUN = ("run",)
_WATCH = ("run", "watch")
_TIMEOUT = ("timeout",)
_TOOLS = ("tool", "mcp")
_LEAN = ("run", "timeout", "tool")
_FILED = ("run", "watch", "tool", "mcp")
_GUARD = ("guard",)

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
        "call", ("--call",), "budgets", "[TOOL=]DURATION", {"": 3_600_000}, "limits", _WATCH,
        "Stop when one call of a tool takes longer than this; with TOOL= for that tool alone.",
        "An open call excuses silence, so it needs an end of its own. One hour covers a build and a test run; as "
        "nobody named it, it only notes and notifies.",
    ),
    Option(
        "stall", ("--stall",), "duration", "DURATION", 0, "limits", _WATCH,
        "Notify when no call succeeded for this long, however much is said.",
        "Off: many a good turn answers without any call, so nothing can be said of all agents.",
    ),
    Option(
        "ask", ("--ask",), "duration", "DURATION", 0, "limits", _WATCH,
        "Notify when a question to you waits for its answer for longer than this.",
        "Off: how long you may take is yours to say.",
    ),
    Option(
        "linger", ("--linger",), "duration", "DURATION", 0, "limits", _WATCH,
        "Stop a program that stays for this long after its final result; the result's status counts.",
        "Off: without a preset nobody knows what a final result is; with one it is 30 s.",
    ),
    Option(
        "effect", ("--effect",), "duration", "DURATION", 0, "limits", _WATCH,
        "Notify when nothing of the work changed for this long: files of the working directory, commits, --check.",
        "Off: reading and thinking change nothing and are work.",
    ),
    Option(
        "check", ("--check",), "command", "COMMAND", None, "evidence", _WATCH,
        "A shell command whose output and status show the work; what changes them is an effect.",
        "Unset: the files of the working directory and its commits are looked at.",
    ),
    Option(
        "loop", ("--loop",), "count", "N", 0, "limits", _WATCH,
        "Stop when the same call gave the same result so many times in a row.",
        "Off: five in twenty are told in any case; what they mean only the user of the tool knows.",
    ),
    Option(
        "action", ("--action",), "actions", "LIMIT=ACTION", None, "limits", _WATCH,
        "The most that a limit may do: stop, nudge, notify or none; of idle --idle-action says it.",
        "Each limit has its own step: stall, ask and effect notify, since who is watched may be right; the others stop.",
        ("stop", "nudge", "notify", "none"),
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
        "preset", ("--preset",), "text", "NAME", None, "evidence", _WATCH,
        "Treat the program as this known one, see longwatch presets; none: as one that nobody knows.",
        "Unset: the program's name selects its preset, which observes and sets limits. One that you name may also add "
        "flags to the command, and says so.",
    ),
    Option(
        "progress", ("--progress",), "sources", "SOURCE", ("output",), "evidence", _WATCH,
        "What counts as progress: output, stdout, stderr, screen, transcript or file:GLOB; the newest counts.",
        "Bytes on either stream: the one sign that every program gives; of a known agent its transcript beside them. "
        "Naming a source replaces it.",
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
        "resume-on-limit", ("--resume-on-limit",), "flag", "", False, "program", _RUN,
        "When a usage limit ends an agent, wait for its reset and go on in the same conversation.",
        "Off: it may go on hours later, and each resume is a turn in the conversation. Without it the last line says "
        "what to type.",
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
        "timeout", ("--timeout",), "duration", "DURATION", 180_000, "limits", _TOOLS,
        "Stop a command after this much time, whatever happens.",
        "3 minutes: most commands that a model runs are over in seconds, and one that waits for input never is. It "
        "is the human who sets it: what a model sees has no field for it.",
    ),
    Option(
        "idle", ("--idle",), "duration", "DURATION", 0, "limits", _TOOLS,
        "Stop a command when there was no output for this long.",
        "Off: many a good command says nothing until it is done, and the timeout bounds it anyway.",
    ),
    Option(
        "kill-after", ("-k", "--kill-after"), "span", "DURATION", 1_000, "stopping", _TOOLS,
        "How long a command's tree may take to end before it is killed.",
        "1 second: a model waits for the answer, and what it runs is seldom a server with work to save.",
    ),
    Option(
        "root", ("--root",), "folders", "DIR", (".",), "program", ("mcp",),
        "A folder that commands may be started in, or below.",
        "The folder that the server was started in: agents start it in the project that they work on.",
    ),
    Option(
        "config", ("--config",), "file", "FILE", None, "general", _FILED,
        "Take from this longwatch.toml what no flag and no variable says.",
        "Unset: no file is read, wherever one lies; LONGWATCH_CONFIG says whose daemon is meant, and nothing here. Of the "
        "file `[defaults]` counts, and of `run` and `watch` the `[harness.NAME]` that `--name` names.",
    ),
    Option(
        "help", ("-h", "--help"), "flag", "", False, "general", _LEAN,
        "Show this text and exit.", "",
    ),
    Option(
        "version", ("--version",), "flag", "", False, "general", _LEAN,
        "Show the version and exit.", "",
    ),
    Option(
        "idle", (), "clamped-duration", "DURATION", 480_000, "limits", _GUARD,
        "Stop when no event came for this long.",
        "8 minutes: three attempts of a provider's client, 120 s each, stay silent for 6 minutes and succeed then.",
    ),
    Option(
        "first", (), "clamped-duration", "DURATION", 0, "limits", _GUARD,
        "Stop when the first event does not come within this time.",
        "Off: `idle` covers a stream that never begins.",
    ),
    Option(
        "call", (), "clamped-duration", "DURATION", 3_600_000, "limits", _GUARD,
        "Stop when one call of a tool takes longer than this.",
        "An open call excuses silence, so it needs an end of its own. One hour covers a build and a test run.",
    ),
    Option(
        "stall", (), "clamped-duration", "DURATION", 0, "limits", _GUARD,
        "Tell the observer when no call succeeded for this long.",
        "Off: many a turn answers without any call.",
    ),
    Option(
        "ask", (), "clamped-duration", "DURATION", 0, "limits", _GUARD,
        "Tell the observer when a question to a human waits for longer than this.",
        "Off: how long a human may take is for the human to say.",
    ),
    Option(
        "ceiling", (), "clamped-duration", "DURATION", 2_700_000, "limits", _GUARD,
        "Stop after this much time, moved by pauses that the provider reports, by two hours at most.",
        "45 minutes: a turn that runs longer is lost in most cases, and is nobody's to watch any more.",
    ),
    Option(
        "timeout", (), "clamped-duration", "DURATION", 0, "limits", _GUARD,
        "Stop after this much time, whatever happens.",
        "Off: elapsed time alone ends a turn only where somebody asks for it.",
    ),
    Option(
        "soft", (), "clamped-duration", "DURATION", None, "limits", _GUARD,
        "Ask the turn to wrap up after this much time.",
        "Unset: 15 % of the ceiling are kept for the end, at least 30 s and at most 5 minutes, and it moves with the "
        "ceiling; none for a ceiling of two minutes or less.",
    ),
    Option(
        "loop", (), "count", "N", 0, "limits", _GUARD,
        "Stop when the same call gave the same result so many times in a row.",
        "Off: five in twenty are told in any case; what they mean is for whoever knows the tool.",
    ),
    Option(
        "width", (), "width", "N", 8, "program", _GUARD,
        "How many turns of a wave run at once, 1 to 32.",
        "Providers refuse more than a handful of requests at once, and each turn may run a tool of its own.",
    ),
)  # fmt: skip
