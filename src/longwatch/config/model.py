"""The tables of `longwatch.toml`, each key once; those of the daemon as a whole stand in `daemon_model`.

The editor's schema, the reference page and `config explain` are made from here.
"""

from __future__ import annotations

from pydantic import Field

from longwatch.config import kinds as k
from longwatch.config.daemon_model import Daemon, Notify, Web
from longwatch.config.keys import Table, action, key, option
from longwatch.core.harness import RESIDENT, SCHEDULED, TRIGGERED

FIRED = (SCHEDULED, TRIGGERED)


class Log(Table):
    """How much output is kept."""

    max: k.Bytes = key(
        "records", "A log that has grown past this is moved to NAME.log.1; off: never.", "100MiB"
    )
    keep: k.Some = key("records", "How many moved logs are kept.", "3")


class Trigger(Table):
    """What may fire a harness from outside."""

    name: k.Name = Field(description="Its name, in the address of the webhook and in `longwatch trigger`.")
    kind: k.TriggerKind = key(
        "",
        "webhook: a request to `[web] webhooks`; channel: `longwatch trigger` and the API alone.",
        "webhook",
    )
    verify: k.Verification = key("", "How a request proves where it comes from; webhooks need it.")
    secret: k.Secret = key("", 'What it proves it with, as "${NAME}": no secret stands in the file.')
    header: k.Text = key("", "The header that carries the signature.", "that of `verify`")
    max_body: k.Body = key("", "The largest request that is taken, 25MiB at most.", "1MiB")
    rate: k.Rate = key("", "How many requests are taken.", "60/min")


class Shared(Table):
    """The keys that `[defaults]` has too."""

    cwd: k.Folder = key(
        "program",
        "The folder it runs in; relative to the file.",
        "the folder of the file",
        why=("Of the user's own file in the configuration folder it is the home folder."),
    )
    env: dict[k.Variable, k.Value] = key("program", "Variables that it gets beside those of the daemon.")
    env_file: k.Files = key(
        "program",
        "Files of lines NAME=VALUE: it gets them, and `${NAME}` is filled from them. All "
        "that they say is secret. They are read anew at each reload.",
        why="Only you should be able to read them.",
    )
    pty: k.Flag = key(
        "program",
        "Whether it gets a terminal of its own, for attach and send.",
        "false",
        why=("A program that draws a screen needs one; every other is easier to read without."),
    )
    enabled: k.Flag = key(
        "program",
        "Whether it runs when the daemon starts for the first time.",
        "true",
        why=("Later the last word of start or stop counts."),
    )

    idle: k.Span = option(
        "idle", "off", why="Off: how long a program may be silent only its user knows, or its preset."
    )
    first: k.Span = option("first")
    call: k.Span = option("call", "1h, notify", text="Stop when one call of a tool takes longer than this.")
    calls: dict[k.Text, k.Span] = key("limits", 'The same for single tools: `calls = { Bash = "30m" }`.')
    ceiling: k.Span = option("ceiling")
    timeout: k.Span = option(
        "timeout",
        "1h where nothing else bounds a run",
        on=FIRED,
        why=(
            "A run that nothing else can end would hold up all that come after it. Where a preset, idle, first, call or "
            "ceiling stops it there is none. A resident program has no end to wait for."
        ),
    )
    soft: k.Span = option("soft")
    ask: k.Span = option("ask")
    linger: k.Span = option("linger")
    effect: k.Span = option("effect")
    stall_timeout: k.Span = option(
        "stall",
        on=(RESIDENT,),
        why=(
            "Off until you write it. Text and output are no progress here. Of a program whose calls nobody can see it counts "
            "from its start: a period of restarts by another name. Each scheduled or triggered run has a timeout instead."
        ),
    )
    idle_action: k.Action = action("idle", "stop")
    first_action: k.Action = action("first", "stop")
    call_action: k.Action = action("call", "stop if you named it")
    ceiling_action: k.Action = action("ceiling", "stop")
    timeout_action: k.Action = action("timeout", "stop", on=FIRED)
    ask_action: k.Action = action("ask", "notify")
    linger_action: k.Action = action("linger", "stop")
    effect_action: k.Action = action("effect", "notify")
    stall_action: k.Action = action("stall_timeout", "notify", on=(RESIDENT,))
    stall_when_ready: k.Flag = key(
        "limits",
        "Whether a finished turn is no excuse for `stall_timeout`.",
        "false",
        on=(RESIDENT,),
        why=("Who waits for its next prompt is not stuck."),
    )
    loop: k.Count = option(
        "loop",
        "8 for agents, else off",
        why=(
            "An agent that makes the very same call eight times in a row, with the same result, does not find out by itself."
        ),
    )
    nudge: k.Text = option("nudge")
    allow_quiet: k.Span = option("allow-quiet")

    progress: k.Sources = option("progress")
    not_progress: k.Regexes = option("not-progress")
    check: k.Text = option("check")
    poll: k.Poll = option("poll")

    signal: k.Signal = option("signal")
    kill_after: k.KillAfter = option("kill-after")
    keep_leftovers: k.Flag = option("keep-leftovers", "false")
    before_stop: k.Text = option("before-stop")
    stop_command: k.Text = key(
        "stopping",
        "A shell command that asks it to end, in place of the first signal.",
        why=("Unset: the signal is what programs expect."),
    )

    restart: k.Policy = key(
        "restarts",
        "Whether it is started again after it ended by itself: always, unless-stopped, on-failure or no.",
        "always",
        on=(RESIDENT,),
        why="A scheduled or triggered run is followed by its next one.",
    )
    intensity: k.OrNone = key(
        "restarts",
        "So many restarts within `period`, of whatever cause, and it is given up until "
        "you start it; 0: never.",
        "5",
        on=(RESIDENT,),
    )
    period: k.Period = key("restarts", "The time in which `intensity` counts.", "10m", on=(RESIDENT,))

    resume_on_limit: k.Flag = option(
        "resume-on-limit",
        "true",
        group="agent",
        why=("On: nobody is there to type it. It comes back once, at the stated reset."),
    )
    limit_patterns: k.Regexes = key(
        "agent",
        "Lines that say that a usage limit is reached; a group named reset is the time of its end.",
        why="Those of known agents need none.",
    )
    quota_group: k.Name = key(
        "agent",
        "Harnesses of one group share a provider's limit: one is held, all are held.",
        "it stands alone",
    )

    hours: k.Hours = key("times", 'When it may run: "mon-fri 09:00-17:00", or a list of such.', "always")
    timezone: k.Zone = key("times", "The time zone of `hours` and `schedule`.", "the machine's")
    on_hold: k.OnHold = key(
        "times", "What becomes of a firing while it is held: queue (one at most) or skip.", "queue", on=FIRED
    )
    catch_up: k.CatchUp = key(
        "times",
        "How late a missed run is still made up for; true: however late.",
        "off",
        on=(SCHEDULED,),
        why="A machine that wakes in the morning should not start all of the night at once.",
    )
    on_overlap: k.Overlap = key(
        "times",
        "What becomes of a firing while the last run still lives: skip, queue (one at most) or replace.",
        "skip; of triggers queue",
        on=FIRED,
    )
    keep_runs: k.Some = key("times", "How many runs keep their logs.", "20", on=FIRED)

    max_runs_per_day: k.Some = key("budgets", "So many starts a day; then it is held until midnight.")
    max_tokens: k.Some = key(
        "budgets",
        "A run that has used so many tokens is stopped: input, output and from a cache, as its agent tells.",
    )
    max_cost_usd: k.Money = key(
        "budgets",
        "A run that has cost so many dollars is stopped: as its agent tells, for nothing is priced here.",
    )
    daily_cost_usd: k.Money = key(
        "budgets",
        "When its runs of a day have cost so many dollars it is held until midnight; what runs then is not stopped.",
    )

    log: Log = key("records", 'How much output is kept: `log = { max = "100MiB", keep = 3 }`.')
    allow_control: k.Flag = key(
        "records",
        "Whether it may start and stop other harnesses.",
        "false",
        why=("Limits belong to the human: who is supervised may read, and restart itself."),
    )
    record_args: k.Flag = key(
        "records",
        "Whether its arguments are written into the record of runs.",
        "false",
        why=(
            "Prompts and secrets stand in them; else only the program and the names of its flags are written."
        ),
    )


class Defaults(Shared):
    """What holds for every harness that says nothing else. A key counts where it can mean something."""


class Harness(Shared):
    """One program."""

    command: k.Command = key(
        "program",
        "What is run: a list of words, or a text that is split as by a shell; no shell runs it.",
        "the program of `harness`",
    )
    args: k.Words = key("program", "The arguments, where `harness` names the program.")
    harness: k.Preset = key(
        "program",
        "The known program that it is, see longwatch presets; none: one that nobody knows. "
        "One that you name may also add flags to the command.",
        "recognised by its name",
    )
    preset: k.Preset = key("program", "The same as `harness`.", "recognised by its name")
    ready: k.Text = key(
        "program",
        "A text in its output that says that it is ready.",
        "ready as soon as it runs",
        on=(RESIDENT,),
    )
    resume: k.Command = key(
        "agent",
        "The command that goes on with a conversation; {session} stands for its id.",
        "what its preset knows",
        why="Without an id it starts afresh with `command`; no argument is ever left empty.",
    )
    schedule: k.Schedule = key(
        "times",
        'When it is started: a cron line, "@daily", "@every 10m", or a list of such; '
        '"TZ=Europe/Berlin 0 8 * * *" has a time zone of its own.',
        why="With it the program is no resident: it runs and ends.",
    )
    trigger: list[Trigger] = key(
        "times", "What may start it from outside, each a table `[[harness.NAME.trigger]]`."
    )


#: The tables and their models, in the order of the reference.
TABLES: dict[str, type[Table]] = {"defaults": Defaults, "daemon": Daemon, "notify": Notify, "web": Web}


class File(Table):
    """The file longwatch.toml: what is run and watched, and who is told."""

    defaults: Defaults = Field(default_factory=Defaults, description="What holds for every harness.")
    daemon: Daemon = Field(default_factory=Daemon, description="What holds for the daemon as a whole.")
    notify: Notify = Field(default_factory=Notify, description="Who is told when something happens.")
    web: Web = Field(default_factory=Web, description="The API beside its Unix socket, and webhooks.")
    harness: dict[k.Name, Harness] = Field(default_factory=dict, description="The programs, by name.")
