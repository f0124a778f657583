"""The tables of a plan file, each key once. What `longwatch.toml` has too is read by the very same readers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from longwatch.config import kinds as k
from longwatch.config.keys import Table, action, key, option
from longwatch.config.model import Log
from longwatch.core.workstream import POLICIES
from longwatch.work.results import WAYS

#: The groups of an item's keys, as the reference page has them.
GROUPS = {
    "program": "What it runs, and where",
    "limits": "Limits",
    "evidence": "What counts as progress",
    "stopping": "How it is stopped",
    "agent": "Agents and their conversations",
    "records": "What is kept",
    "where": "Beyond this machine",
}
Policy = Annotated[str, k.OneOf("policy", POLICIES)]
Way = Annotated[str, k.OneOf("way", WAYS)]


class Shared(Table):
    """What an item may say, and `[defaults]` for all of them."""

    command: k.Command = key(
        "program", "Program and arguments; no shell. `{prompt}` in it stands for the prompt."
    )
    preset: k.Preset = key(
        "program", "The agent that it is; without a command also the program.", "recognised by its name"
    )
    prompt: k.Value = key("program", "What it is asked.")
    prompt_file: k.Folder = key("program", "A file that holds what it is asked.")
    prompt_by: Way = key(
        "program", "How the prompt reaches it: argv, stdin, or file (LONGWATCH_PROMPT_FILE).", "argv"
    )
    cwd: k.Folder = key(
        "program", "Where it works, relative to the plan.", "a folder of its own below the base"
    )
    git: k.Text = key(
        "program",
        "A repository (a folder or an address): it works in a tree of its own on a branch of its own.",
    )
    branch: k.Text = key("program", "That branch.", "longwatch/ID")
    base: k.Text = key("program", "What the branch begins from.", "what is checked out, or the remote's head")
    env: dict[k.Variable, k.Value] = key("program", "Variables that it gets beside ours.")
    env_file: k.Files = key("program", "Files of variables; they are secrets, and stand behind ${NAME} here.")
    pty: k.Flag = key("program", "Give it a terminal.", "false")
    result: k.Flag = key(
        "program", "Its answer is what it writes to the file LONGWATCH_RESULT_FILE.", "false"
    )
    retries: k.OrNone = key("program", "How often a failure is tried again in the same run.", "0")

    idle: k.Span = option("idle", "that of the preset; off without one")
    first: k.Span = option("first")
    call: k.Span = option("call", "1h, notify")
    calls: dict[k.Text, k.Span] = key("limits", 'The same for single tools: `calls = { Bash = "30m" }`.')
    ceiling: k.Span = option("ceiling")
    timeout: k.Span = option("timeout")
    soft: k.Span = option(
        "soft", "2h", why="Elapsed time alone ends nothing: past it an item is marked, and it goes on."
    )
    policy: Policy = key(
        "limits", "Past `soft`: leave it alone, or stop it once it is silent as well.", "continue-preserve"
    )
    ask: k.Span = option("ask")
    linger: k.Span = option("linger")
    effect: k.Span = option("effect")
    idle_action: k.Action = action("idle", "stop")
    call_action: k.Action = action("call", "stop if you named it")
    loop: k.Count = option("loop")
    progress: k.Sources = option("progress")
    not_progress: k.Regexes = option("not-progress")
    check: k.Text = option("check")
    nudge: k.Text = option("nudge")
    allow_quiet: k.Span = option("allow-quiet")
    signal: k.Signal = option("signal")
    kill_after: k.KillAfter = option("kill-after")
    keep_leftovers: k.Flag = option("keep-leftovers", "false")
    before_stop: k.Text = option("before-stop")
    resume: k.Command = key(
        "agent",
        "The command that goes on with its conversation; `{session}` is the id.",
        "that of its preset",
    )
    resume_on_limit: k.Flag = key("agent", "At a provider's limit wait for the reset and go on.", "true")
    log: Log = key(
        "records",
        "How much output is kept: so many files of at most this size.",
        '{ max = "50MiB", keep = 2 }',
    )
    cpus: k.Money = key("where", "So many processors it takes, beyond this machine.", "1")
    labels: dict[k.Text, k.Value] = key("where", "Labels that its node must have, beyond this machine.")


class Defaults(Shared):
    """`[defaults]`: what holds for every item that does not say otherwise."""


class Level(Table):
    """One level of an item that has several: the next is tried where one fails by its exit status."""

    name: k.Name = Field(description="Its name in the report.")
    command: k.Command = Field(description="Its command.")


class Item(Shared):
    """`[[item]]`: one workstream."""

    id: k.Text = Field(
        description="Its id: the same id in the same base goes on with the same folder.",
        json_schema_extra={"x-group": "program"},
    )
    needs: k.Texts = key("program", "Ids that have to be completed before it starts.")
    description: k.Value = key("program", "What it is about, for the report.")
    level: list[Level] = key("program", "`[[item.level]]`: commands to try in turn, best first.")


class Head(Table):
    """What stands above the tables of a plan."""

    name: k.Name = key("plan", "The plan's name: PLAN/ITEM names an item to other verbs.", "that of the file")
    base: k.Folder = key(
        "plan", "Where states, logs and work trees are kept.", ".longwatch/NAME beside the plan"
    )
    jobs: k.Some = key("plan", "How many items run at once.", "8")
    alike: k.OrNone = key(
        "plan",
        "So many items in a row that fail at once and with the same last words end the run; 0 is off.",
        "5",
    )


class File(Head):
    """A plan file."""

    defaults: Defaults = Field(default_factory=Defaults, description="What holds for every item.")
    item: list[Item] = Field(default_factory=list, description="The items.")
