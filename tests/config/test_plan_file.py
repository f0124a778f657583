"""A plan file: what it comes to, who set what, and everything that is wrong with it at once."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from longwatch.config.plan_beside import Flags
from longwatch.config.plan_file import Loaded, load
from longwatch.core.spec import MINUTE, SECOND
from longwatch.errors import UsageError

Load = Callable[..., Loaded]
HOUR = 60 * MINUTE


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return what reads a text as a plan, with the variables and flags that are given."""
    monkeypatch.chdir(tmp_path)

    def loaded(text: object, environ: Mapping[str, str] | None = None, **flags: Any) -> Loaded:
        name = "plan.toml" if isinstance(text, str) else "plan.json"
        Path(name).write_text(text if isinstance(text, str) else json.dumps(text))
        return load(name, {"PATH": os.environ["PATH"], **(environ or {})}, Flags(**flags))

    return loaded


def window(loaded: Loaded, limit: str, at: int = 0) -> int:
    """Return the window of a limit of an item, in ms."""
    found = loaded.works[at].harness.limits.get(limit)
    return 0 if found is None else found.window


A = '[[item]]\nid = "a"\n'
ITEM = A + 'command = "true"\n'

WRONG = {
    "": "plan.toml: no [[item]] in it: nothing to run",
    "item = 1\n": "plan.toml:1:1: item = 1: write [[item]]",
    "[item]\nid = 'a'\n": "plan.toml:1:2: item = a table: write [[item]]",
    "item = [1]\n": "plan.toml:1:9: item 1: a table is wanted here",
    "jbos = 3\n" + ITEM: 'plan.toml:1:1: unknown key "jbos" in the plan; did you mean "jobs"?',
    "jobs = 0\n" + ITEM: "plan.toml:1:1: jobs = 0: no such number; write a whole one from 1 on",
    A: 'plan.toml:1:3: item a has no command; write command = ["..."], or preset and prompt',
    '[[item]]\ncommand = "true"\n': 'plan.toml:1:3: [[item]] has no id; write id = "..."',
    '[[item]]\nid = "a/b"\ncommand = "true"\n': (
        "plan.toml:2:1: id a/b: write letters, digits, . _ -, at most 40, none of . - in front"
    ),
    ITEM + ITEM: "plan.toml:4:3: the id a is given twice",
    ITEM + 'needs = ["b"]\n': "plan.toml:1:3: a needs b, which is no item",
    ITEM + 'needs = ["a"]\n': "plan.toml:1:3: items need each other in a circle: a",
    ITEM + 'idel = "5m"\n': 'plan.toml:4:1: unknown key "idel" in [[item]]; did you mean "idle"?',
    ITEM + "idle = 5\n": 'plan.toml:4:1: [[item]] idle = 5: a bare number is no duration; write "5s" or "5m"',
    ITEM + 'policy = "continue"\n': (
        'plan.toml:4:1: [[item]] policy = continue: no such policy; did you mean "continue-preserve"?'
    ),
    ITEM
    + "retries = -1\n": "plan.toml:4:1: [[item]] retries = -1: no such number; write a whole one from 0 on",
    ITEM + 'branch = "b"\n': 'plan.toml:4:1: branch is of a repository; write git = "..." with it',
    ITEM
    + 'git = "."\ncwd = "."\n': "plan.toml:5:1: cwd and git exclude each other: with git it works in a tree of its own",
    ITEM + 'prompt = "x"\n': (
        "plan.toml:4:1: item a: true: nobody knows how it is given a prompt; write {prompt} in its command, or prompt_by"
    ),
    ITEM
    + 'prompt_by = "smoke"\n': 'plan.toml:4:1: [[item]] prompt_by = smoke: no such way; write "argv" or "stdin" or "file"',
    ITEM + 'prompt_file = "gone"\n': "plan.toml:4:1: prompt_file = {folder}/gone: No such file or directory",
    ITEM + 'env_file = "gone"\n': "plan.toml:4:1: env_file = {folder}/gone: No such file or directory",
    ITEM + 'resume = ["true", "--continue"]\n': (
        "plan.toml:4:1: resume goes on with no conversation without {session} in it"
    ),
    ITEM + 'env = { X = "${NOWHERE}" }\n': (
        "plan.toml:4:9: [[item]] env.X = ${NOWHERE}: this variable is not set; set it, or write it into env_file"
    ),
    ITEM
    + '[[item.level]]\nname = "x"\n': 'plan.toml:4:8: [[item.level]] has no command; write command = "..."',
    "x = \n": "plan.toml:1:5: ",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_has_its_place_and_its_remedy(read: Load, tmp_path: Path, text: str) -> None:
    """One line each, as in longwatch.toml."""
    loaded = read(text)
    expected = WRONG[text].replace("{folder}", str(tmp_path))
    said = [str(problem) for problem in (*loaded.errors, *loaded.warnings)]
    assert said[0].startswith(expected), said


def test_all_errors_come_at_once(read: Load) -> None:
    """In the order of their places; nothing is made of an item that has none."""
    loaded = read(ITEM + "idle = 5\nbranch = 'b'\n" + '[[item]]\nid = "b"\nneeds = ["c"]\ncommand = "true"\n')
    assert [problem.line for problem in loaded.errors] == [4, 5, 6]


def test_in_json_a_problem_names_its_item(read: Load) -> None:
    """Its places are not known: the id is, or the number."""
    loaded = read({"item": [{"id": "a", "command": "true", "idle": 5}, {"command": "true"}, 3]})
    assert [str(problem) for problem in loaded.errors] == [
        'plan.json: item a: idle = 5: a bare number is no duration; write "5s" or "5m"',
        'plan.json: item 2: has no id; write id = "..."',
        "plan.json: item 3: a table is wanted here",
    ]
    Path("plan.json").write_text('{"item": [}')
    broken = load("plan.json", {}, Flags())
    assert str(broken.errors[0]).startswith("plan.json:1:11: expecting value")
    Path("plan.json").write_text('"text"')
    assert "a plan is a table, or a list of workstreams" in str(load("plan.json", {}, Flags()).errors[0])


@pytest.mark.parametrize("path", ["gone.toml", "."])
def test_a_plan_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Is a usage error that names it."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=path):
        load(path, {}, Flags())


# What it comes to


def test_the_smallest_plan(read: Load, tmp_path: Path) -> None:
    """Its name is that of the file, its states are beside it, eight run at once, and there is a budget of two hours."""
    loaded = read(ITEM)
    assert (loaded.name, loaded.jobs, loaded.alike) == ("plan", 8, 5)
    assert loaded.base == str(tmp_path / ".longwatch" / "plan")
    (work,) = loaded.works
    assert (work.id, work.harness.command, work.harness.cwd, work.harness.kind) == (
        "a",
        ("true",),
        "",
        "item",
    )
    assert {name: spec.window for name, spec in work.harness.limits.items()} == {
        "soft": 2 * HOUR,
        "call": HOUR,
    }
    assert (work.harness.limits["soft"].action, work.harness.limits["call"].action) == ("notify", "notify")
    assert work.harness.log == {"max": 50 << 20, "keep": 2}


def test_every_key_arrives(read: Load, tmp_path: Path) -> None:
    """Of the head, of an item, of defaults where the item says nothing else; tables are joined."""
    Path(tmp_path / "ask.txt").write_text("do it")
    (tmp_path / "repo").mkdir()
    loaded = read(
        'name = "demo"\nbase = "states"\njobs = 3\nalike = 0\n'
        '[defaults]\nidle = "10m"\nretries = 2\nenv = { A = "1", B = "1" }\nlog = { max = "1MiB" }\n'
        '[[item]]\nid = "a"\ngit = "repo"\nbranch = "mine"\nbase = "main"\nprompt_file = "ask.txt"\nprompt_by = "stdin"\n'
        'command = "agent {prompt}"\nenv = { B = "2" }\nresult = true\ndescription = "what for"\ncpus = 2\n'
        'labels = { gpu = "yes" }\nceiling = "1h"\nsignal = "INT"\nkill_after = "3s"\nresume = "agent --resume {session}"\n'
        '[[item]]\nid = "b"\nneeds = ["a"]\npreset = "claude"\nprompt = "go"\n[[item]]\nid = "c"\n'
        '[[item.level]]\nname = "best"\ncommand = "one"\n[[item.level]]\nname = "next"\ncommand = "two"\n'
    )
    assert loaded.errors == ()
    assert (loaded.name, loaded.base, loaded.jobs, loaded.alike) == ("demo", str(tmp_path / "states"), 3, 0)
    a, b, c = loaded.works
    assert (a.git, a.branch, a.base, a.prompt, a.prompt_by) == (
        str(tmp_path / "repo"),
        "mine",
        "main",
        "do it",
        "stdin",
    )
    assert (a.item.retries, a.result, a.description, a.cpus, a.labels) == (
        2,
        True,
        "what for",
        2,
        {"gpu": "yes"},
    )
    assert (a.harness.env, a.harness.signal, a.harness.grace) == ({"A": "1", "B": "2"}, 2, 3 * SECOND)
    assert a.harness.resume == ("agent", "--resume", "{session}")
    assert (window(loaded, "ceiling"), window(loaded, "idle")) == (HOUR, 10 * MINUTE)
    assert a.harness.log == {"max": 1 << 20, "keep": 2}
    assert (b.item.needs, b.harness.preset, b.harness.command[0]) == (("a",), "claude", "claude")
    assert (c.levels, c.harness.command) == ((("best", ("one",)), ("next", ("two",))), ("one",))


@pytest.mark.capability("CAP-34")
def test_a_list_of_issues_is_a_plan(read: Load) -> None:
    """Numbers and texts are ids, a description is made where none is, the task is the prompt."""
    loaded = read(
        [
            {
                "issue": 12,
                "branch": "fix/12",
                "task": "Fix it",
                "preset": "claude",
                "git": "https://example.org/r.git",
            },
            {"issue": "13", "task": "Do", "description": "Mine", "command": "agent {prompt}", "recipe": "x"},
            {"issue": 14, "command": "true", "max_runtime": 60, "timeout_policy": "interrupt-preserve"},
        ]
    )
    assert loaded.errors == ()
    assert [(work.id, work.description) for work in loaded.works] == [
        ("12", "Issue #12"), ("13", "Mine"), ("14", "Issue #14"),
    ]  # fmt: skip
    assert (loaded.works[0].branch, loaded.works[0].prompt) == ("fix/12", "Fix it")
    assert [str(problem) for problem in loaded.warnings] == [
        "plan.json: workstream 2: recipe is not known here, and left out"
    ]
    assert (window(loaded, "soft", 2), loaded.works[2].policy) == (60 * SECOND, "interrupt-preserve")


@pytest.mark.capability("CAP-34")
@pytest.mark.parametrize("issue", [0, -1, "0", "-1", "TBD", "", True, None, 1.5])
def test_an_issue_that_is_none_is_refused(read: Load, issue: object) -> None:
    """Numbers begin at 1."""
    loaded = read([{"issue": issue, "command": "true"}])
    assert "write a number from 1 on" in str(loaded.errors[0])


@pytest.mark.capability("CAP-39")
def test_policy_and_budget_by_default(read: Load) -> None:
    """Left alone past two hours; a policy of the older form that is none is a warning, and the default is taken."""
    loaded = read(
        [{"issue": 1, "command": "true"}, {"issue": 2, "command": "true", "timeout_policy": "kill"}]
    )
    assert [(work.policy, work.harness.armed_by_soft) for work in loaded.works] == [
        ("continue-preserve", False)
    ] * 2
    assert [window(loaded, "soft", at) for at in range(2)] == [7_200 * SECOND] * 2
    assert (
        "timeout_policy kill: write continue-preserve or interrupt-preserve; continue-preserve is taken"
        in str(loaded.warnings[0])
    )


@pytest.mark.capability("CAP-37", "CAP-39")
def test_who_may_be_interrupted_has_a_window_of_silence(read: Load) -> None:
    """Five minutes where nobody says, waiting for the budget; its own where there is one."""
    loaded = read(
        ITEM + 'policy = "interrupt-preserve"\n' + ITEM.replace('"a"', '"b"') + 'idle = "1m"\n',
        policy="interrupt-preserve",
    )
    assert [window(loaded, "idle", at) for at in range(2)] == [5 * MINUTE, MINUTE]
    assert all(work.harness.armed_by_soft for work in loaded.works)


SETTERS = [
    ("item", "3m", "plan.toml:4"), ("flag", "4m", "--idle"), ("defaults", "5m", "plan.toml:5"),
    ("variable", "6m", "LONGWATCH_BATCH_IDLE"),
]  # fmt: skip


@pytest.mark.capability("CAP-40")
@pytest.mark.parametrize("first", range(4))
def test_the_strongest_setter_wins(read: Load, first: int) -> None:
    """Item, flag, defaults, variable, built-in: with each one less the next is taken, and the plan says who it was."""
    given = {name: value for name, value, _ in SETTERS[first:]}
    text = ITEM + (f'idle = "{given["item"]}"\n' if "item" in given else "")
    text += f'[defaults]\nidle = "{given["defaults"]}"\n' if "defaults" in given else ""
    environ = {"LONGWATCH_BATCH_IDLE": given["variable"]} if "variable" in given else {}
    flags = {"idle": int(given["flag"][0]) * MINUTE} if "flag" in given else {}
    loaded = read(text, environ, **flags)
    assert window(loaded, "idle") == (3 + first) * MINUTE
    setter = loaded.works[0].values_from["idle"]
    assert setter.partition(":")[0] == SETTERS[first][2].partition(":")[0]
    assert loaded.works[0].harness.setters["idle"] == setter


@pytest.mark.capability("CAP-40")
def test_other_flags_and_variables(read: Load) -> None:
    """Jobs, budget, policy and the size of logs by variable; by flag they are stronger."""
    environ = {
        "LONGWATCH_BATCH_JOBS": "3", "LONGWATCH_BATCH_SOFT": "1h", "LONGWATCH_BATCH_POLICY": "interrupt-preserve",
        "LONGWATCH_BATCH_LOG_MAX": "2MiB",
    }  # fmt: skip
    loaded = read(ITEM, environ)
    assert (loaded.jobs, window(loaded, "soft"), loaded.works[0].policy) == (3, HOUR, "interrupt-preserve")
    assert loaded.works[0].harness.log["max"] == 1 << 20
    loaded = read(ITEM, environ, jobs=4, soft=MINUTE, policy="continue-preserve")
    assert (loaded.jobs, window(loaded, "soft"), loaded.works[0].policy) == (4, MINUTE, "continue-preserve")
    assert read("jobs = 5\n" + ITEM, environ).jobs == 5
    with pytest.raises(UsageError, match="did you mean continue-preserve"):
        Flags(policy="continue-preserved")


@pytest.mark.capability("CAP-39", "CAP-40")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("JOBS", "many", "write a number from 1 on; 8 is taken"),
        ("SOFT", "7200", "a bare number is no duration"),
        ("POLICY", "kill", "write continue-preserve or interrupt-preserve; the built-in is taken"),
        ("LOG_MAX", "much", "100MiB is taken"),
    ],
)
def test_a_variable_that_makes_no_sense_warns(read: Load, name: str, value: str, said: str) -> None:
    """And the built-in is taken."""
    loaded = read(ITEM, {f"LONGWATCH_BATCH_{name}": value})
    assert said in str(loaded.warnings[0])
    assert (loaded.jobs, window(loaded, "soft"), loaded.works[0].policy) == (8, 2 * HOUR, "continue-preserve")


def test_secrets_are_known(read: Load, tmp_path: Path) -> None:
    """What env_file brings reaches the program and is secret; so is what stands behind a reference."""
    (tmp_path / "env").write_text("TOKEN=hush-hush\n")
    (tmp_path / "env").chmod(0o644)
    loaded = read(ITEM + 'env_file = "env"\nenv = { COPY = "${OTHER}" }\n', {"OTHER": "also-hush"})
    harness = loaded.works[0].harness
    assert harness.env == {"TOKEN": "hush-hush", "COPY": "also-hush"}
    assert set(harness.secrets) == {"hush-hush", "also-hush"}
    assert "others can read it" in str(loaded.warnings[0])
