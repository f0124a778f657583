"""What is known of programs, as data: which evidence they give, how long they may be silent, how they go on.

A row observes and bounds; it leaves argv, stdin and stdout as they were given. What it would add to a command line is
added only where somebody names it (`--preset claude`). Every value has its reason, and `longwatch presets NAME` shows
it. Windows are in ms.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE, SECOND

#: The dialects of programs that say what they cost; the others tell tokens alone.
PRICED = ("claude", "opencode", "pi")
#: Stands in a resume template for the id of the conversation; and what the agent is told to do next.
SESSION = "{session}"
GO_ON = "Continue where you left off."


class Setting(Plain):
    """One limit of a preset, and why it is so."""

    __slots__ = ("why", "window")

    def __init__(self, window: int, why: str) -> None:
        self.window = window
        self.why = why


class Addition(Plain):
    """Words that a named preset adds behind the program (`at` 1) or its subcommand.

    They are added where one of `where` is among the arguments (or always) and none of `unless` is.
    """

    __slots__ = ("unless", "where", "why", "words")

    def __init__(
        self, words: tuple[str, ...], why: str, where: tuple[str, ...] = (), unless: tuple[str, ...] = ()
    ) -> None:
        self.words = words
        self.why = why
        self.where = where
        self.unless = unless


class Resume(Plain):
    """How a conversation is taken up again: `words` behind the program or, if given, behind `after`.

    Without `after` nobody knows how, unless it goes `anyhow`, behind the program.

    `prompt` are the flags that the prompt stands behind; else the last argument is one that is no flag's value, and
    where there is none (it came by stdin) it is added, unless only a flag can say it (`by_flag`). `drop` are flags of
    a fresh conversation that contradict a resumed one, each with its value, `bare` those without. `valued` are flags
    that have a value, with `...` those that have several.
    """

    __slots__ = ("after", "anyhow", "bare", "by_flag", "drop", "prompt", "valued", "words")

    def __init__(
        self, words: tuple[str, ...], after: str = "", prompt: tuple[str, ...] = (), drop: tuple[str, ...] = (), *,
        bare: tuple[str, ...] = (), valued: tuple[str, ...] = (), by_flag: bool = False,
        anyhow: bool = False,
    ) -> None:  # fmt: skip
        self.words = words
        self.after = after
        self.anyhow = anyhow
        self.prompt = prompt
        self.drop = drop
        self.bare = bare
        self.valued = valued
        self.by_flag = by_flag


class Preset(Plain):
    """One known program. `programs` are the names that it is recognised by, of executables and of packages.

    A name with a subcommand stands for that alone: `npm install` ends, what `npm start` starts may be silent for ever.

    `dialect` says how its records are read (None: it keeps none), `headless` the arguments by which it works without
    a human, `call` budgets by tool.
    """

    __slots__ = (
        "about",
        "additions",
        "call",
        "dialect",
        "headless",
        "limits",
        "name",
        "programs",
        "result",
        "resume",
        "stdin",
    )

    def __init__(
        self, name: str, about: str, programs: tuple[str, ...], limits: dict[str, Setting], *,
        dialect: str | None = None, headless: tuple[str, ...] = (), call: dict[str, Setting] | None = None,
        additions: tuple[Addition, ...] = (), stdin: Setting | None = None, result: str = "",
        resume: Resume | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.about = about
        self.programs = programs
        self.limits = limits
        self.dialect = dialect
        self.headless = headless
        self.call = call or {}
        self.additions = additions
        self.stdin = stdin
        self.result = result
        self.resume = resume


def _idle(minutes: int, why: str) -> Setting:
    return Setting(minutes * MINUTE, why)


_FIRST = Setting(
    5 * MINUTE,
    "Its first record comes within seconds; servers of tools and a slow disk may take a minute or two.",
)
_LINGER = Setting(
    30 * SECOND, "What it still has to do after its result, hooks and telemetry, takes seconds."
)
_CALLS = Setting(
    1 * HOUR,
    "In recorded sessions one call in a thousand takes longer than 18 minutes: builds and test runs.",
)
_HELPERS = Setting(
    4 * HOUR,
    "A helper works like its parent; its own records are followed, so only one that hangs is silent so long.",
)

PRESETS: tuple[Preset, ...] = (
    Preset(
        "claude", "Claude Code", ("claude", "claude-code", "@anthropic-ai/claude-code"),
        {
            "idle": _idle(12, "It asks its provider again by itself after 5 to 10 silent minutes; stopping it before "
                              "that loses work that would have gone on."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="claude", headless=("-p", "--print"),
        call={"": _CALLS, "Task": _HELPERS, "Agent": _HELPERS, "subagent": _HELPERS},
        additions=(
            Addition(("--output-format", "stream-json", "--verbose"), "Its stream shows retries and limits at once.",
                     ("-p", "--print"), ("--output-format",)),
        ),
        stdin=Setting(0, "Without a terminal it waits a few seconds for a prompt on stdin."),
        result="the stream's `result` record, or the end of the turn in its transcript",
        resume=Resume(
            ("--resume", SESSION), prompt=("-p", "--print"), drop=("--session-id", "--resume", "-r"), bare=("--continue", "-c"),
            valued=(
                "--add-dir...", "--agent", "--agents", "--allowedTools...", "--allowed-tools...", "--append-system-prompt",
                "--append-system-prompt-file", "--betas...", "--disallowedTools...", "--disallowed-tools...",
                "--fallback-model", "--input-format", "--json-schema", "--max-budget-usd", "--max-turns", "--mcp-config...",
                "--model", "--output-format", "--permission-mode", "--permission-prompt-tool", "--plugin-dir...",
                "--setting-sources", "--settings", "--system-prompt", "--system-prompt-file", "--tools...",
            ),
        ),
    ),
    Preset(
        "codex", "Codex CLI", ("codex", "@openai/codex"),
        {
            "idle": _idle(13, "It waits over 12 minutes for a first byte before it asks again by itself."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="codex", headless=("exec", "e"), call={"": _CALLS, "subagent": _HELPERS},
        additions=(Addition(("--json",), "Its stream shows retries, which its rollout leaves out.", ("exec", "e"), ("--json",)),),
        stdin=Setting(0, "`codex exec` reads stdin to its end before it begins, so an open one holds it for ever."),
        result="`turn.completed` in its stream, `task_complete` in its rollout",
        resume=Resume(
            ("resume", SESSION), after="exec", anyhow=True,
            valued=(
                "--add-dir", "--ask-for-approval", "--cd", "--color", "--config", "--disable", "--enable", "--image...",
                "--local-provider", "--model", "--output-last-message", "--output-schema", "--profile", "--sandbox",
                "-C", "-a", "-c", "-i...", "-m", "-o", "-p", "-s",
            ),
        ),
    ),
    Preset(
        "copilot", "GitHub Copilot CLI", ("copilot", "@github/copilot"),
        {
            "idle": _idle(13, "It asks again by itself after 10 to 12 silent minutes."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="copilot", headless=("-p", "--prompt"), call={"": _CALLS, "subagent": _HELPERS},
        additions=(
            Addition(("--output-format", "json"), "Its stream shows retries and failed model calls.", ("-p", "--prompt"),
                     ("--output-format",)),
        ),
        result="the stream's `result` record",
        resume=Resume(("--resume", SESSION), prompt=("-p", "--prompt"), drop=("--session-id",), by_flag=True),
    ),
    Preset(
        "gemini", "Gemini CLI", ("gemini", "@google/gemini-cli"),
        {
            "idle": _idle(8, "It asks again by itself after 5 silent minutes, and not at all while pings come."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="gemini", headless=("-p", "--prompt"), call={"": _CALLS, "subagent": _HELPERS},
        additions=(
            Addition(("-o", "stream-json"), "Its chat file has a call only when it is over; its stream shows the start.",
                     ("-p", "--prompt"), ("-o", "--output-format")),
        ),
        result="the stream's `result` record",
        resume=Resume(("--resume", SESSION), prompt=("-p", "--prompt"), drop=("--session-id",), by_flag=True),
    ),
    Preset(
        "qwen", "Qwen Code", ("qwen", "@qwen-code/qwen-code"),
        {
            "idle": _idle(8, "It asks again after 2 silent minutes before the first byte, and never in mid-stream."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="qwen", headless=("-p", "--prompt"), call={"": _CALLS, "subagent": _HELPERS},
        additions=(
            Addition(("--output-format", "stream-json"), "Its stream shows each call as it begins.", ("-p", "--prompt"),
                     ("-o", "--output-format")),
        ),
        result="the stream's `result` record",
        resume=Resume(("--resume", SESSION), prompt=("-p", "--prompt"), by_flag=True),
    ),
    Preset(
        "opencode", "opencode", ("opencode", "opencode-ai"),
        {
            "idle": _idle(8, "It asks again by itself after 5 silent minutes, and not at all while pings come."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="opencode", headless=("run",), call={"": _CALLS, "task": _HELPERS, "subagent": _HELPERS},
        additions=(Addition(("--format", "json"), "Its stream has a line for each step.", ("run",), ("--format",)),),
        result="the last `step_finish` of its stream",
        resume=Resume(
            ("--session", SESSION), after="run", drop=("--session", "-s"), bare=("--continue", "-c"),
            valued=("--agent", "--attach", "--command", "--dir", "--file...", "--format", "--log-level", "--model", "--port",
                    "--title", "--variant", "-f...", "-m"),
        ),
    ),
    Preset(
        "pi", "pi", ("pi", "@mariozechner/pi-coding-agent"),
        {
            "idle": _idle(12, "It asks again after 10 silent minutes before the first byte, and never in mid-stream."),
            "first": _FIRST, "linger": _LINGER,
        },
        dialect="pi", headless=("-p", "--print", "--mode"), call={"": _CALLS, "subagent": _HELPERS},
        additions=(Addition(("--mode", "json"), "Its stream shows calls as they begin, and retries.", ("-p", "--print"), ("--mode",)),),
        result="`agent_end` in its stream",
        resume=Resume(
            ("--session", SESSION), drop=("--session",), bare=("--continue", "-c"),
            valued=("--append-system-prompt", "--api-key", "--extension", "--mode", "--model", "--models", "--provider",
                    "--session-dir", "--skill", "--system-prompt", "--thinking", "--tools", "-e", "-t"),
        ),
    ),
    Preset(
        "pytest", "pytest", ("pytest", "py.test"),
        {
            "idle": _idle(15, "It prints a mark for each test, so silence is one test; few take longer than this."),
            "first": _idle(5, "Collecting a large suite takes minutes and prints nothing until it is done."),
        },
    ),
    Preset(
        "cargo", "cargo", tuple(f"cargo {word}" for word in ("build", "b", "test", "t", "check", "clippy", "bench", "install", "doc")),
        {"idle": _idle(20, "Linking and optimising one large crate prints nothing, and takes many minutes on a small machine.")},
    ),
    Preset(
        "docker-build", "docker build", ("docker build", "docker buildx", "podman build", "buildah build", "buildah bud"),
        {"idle": _idle(20, "A step that compiles or downloads may print nothing; large layers take minutes to export.")},
    ),
    Preset(
        "npm", "npm", tuple(f"{tool} {word}" for tool in ("npm", "pnpm", "yarn", "bun") for word in ("install", "i", "ci", "add", "update")),
        {"idle": _idle(10, "It draws its progress only on a terminal; an install without one is silent for minutes.")},
    ),
)  # fmt: skip
