"""Completion in real shells, from the script that `longwatch completion` prints."""

import shutil
from pathlib import Path

import pytest

import helpers

# Loads the script, then asks what a shell would ask at this point of a line.
BASH = """
eval "$(longwatch completion bash)"
COMP_WORDS=({words}) COMP_CWORD={at}
_longwatch_completion longwatch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
PATH = f"{helpers.LONGWATCH.parent}:/usr/local/bin:/usr/bin:/bin"


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of these words behind `longwatch`."""
    quoted = " ".join(f"'{word}'" for word in ("longwatch", *words))
    # bash tells the words of a line; an unfinished empty one is there too.
    script = BASH.format(words=quoted, at=len(words))
    done = helpers.run_command(["bash", "--norc", "-c", script], env={"PATH": PATH})
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "compopt" not in line]
    assert lines == []
    return done.out.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("",), {"run", "why", "config", "completion", "timeout"}),
        (("ru",), {"run", "runs"}),
        (("run", "--idle"), {"--idle", "--idle-action"}),
        (("run", "--no-p"), {"--no-pty"}),
        (("run", "--idle-action", "n"), {"nudge", "notify", "none"}),
        (("run", "--stdin", ""), {"inherit", "null"}),
        (("run", "-s", "TE"), {"TERM"}),
        (("run", "--progress", "s"), {"stdout", "stderr", "screen"}),
        (("run", "--exit-code", "idl"), {"idle="}),
        (("timeout", "--pre"), {"--preserve-status"}),
        (("config", ""), {"explain", "schema"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(words: tuple[str, ...], some: set[str]) -> None:
    """Verbs, options of the table and their values are offered."""
    offered = set(completed(*words))
    assert some <= offered
    assert all(word.startswith(words[-1]) for word in offered)


def test_bash_leaves_the_command_its_own_options() -> None:
    """Behind the command no option of ours is offered."""
    assert "--idle" not in completed("run", "sleep", "--id")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_loads(shell: str, tmp_path: Path) -> None:
    """The script of each shell is printed; where the shell is installed, it loads."""
    printed = helpers.run_cli("completion", shell)
    assert printed.code == 0, printed.err
    assert "_LONGWATCH_COMPLETE" in printed.out
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed: its script was printed but not loaded")
    script = tmp_path / "script"
    script.write_text(printed.out)
    begin = "autoload -U compinit && compinit -u; " if shell == "zsh" else ""
    done = helpers.run_command([shell, "-c", f"{begin}source {script}"], env={"PATH": PATH})
    assert (done.code, done.err) == (0, "")


def test_an_unknown_shell_is_refused() -> None:
    """A shell without completion is refused with those that have it."""
    done = helpers.run_cli("completion", "tcsh")
    assert done.code == 2
    assert done.err == (
        "longwatch: completion: invalid value for 'SHELL': 'tcsh' is not one of 'bash', 'zsh', 'fish'\n"
    )
