"""`longwatch unit`: what it prints is a unit that systemd takes, and that leaves the harnesses alone."""

import json
import os
import pwd
import stat
from pathlib import Path

import pytest

import helpers
from longwatch.cli import unit as units

USER = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def file(home: Path) -> Path:
    """Return a configuration whose path has all that a unit has to quote."""
    folder = home / 'agents 100% "$HOME"'
    folder.mkdir(exist_ok=True)
    path = folder / "longwatch.toml"
    path.write_text('[harness.w]\ncommand = ["sleep", "60"]\n')
    return path


def settings(text: str) -> dict[str, str]:
    """Return the settings of a unit; of those that come several times the last."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)  # type: ignore[misc]


@pytest.mark.fault("I1")
@pytest.mark.parametrize("words", [[], ["--system"]])
def test_a_restart_of_the_service_leaves_the_harnesses_alone(words: list[str], file: Path) -> None:
    """Only the supervisor is ended, by a stop, by the watchdog and where memory is short; it is ready when it says so."""
    done = helpers.run_cli("unit", "--config", file, *words)
    found = settings(done.out)
    assert done.code == 0
    assert found["KillMode"] == "process"
    assert found["OOMPolicy"] == "continue"
    assert found["Type"] == "notify"
    assert found["NotifyAccess"] == "main"
    assert found["WatchdogSec"] == "60"
    assert found["Restart"] == "on-failure"
    assert "ExecStop" not in found
    assert found["ExecReload"].endswith(" reload" + found["ExecStart"].partition(" up")[2])


@pytest.mark.fault("I1")
@pytest.mark.parametrize("words", [[], ["--system"]])
def test_systemd_takes_the_unit(words: list[str], file: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, whatever the path holds."""
    if not helpers.have("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "longwatch-x.service"
    unit.write_text(helpers.run_cli("unit", "--config", file, *words, env={"XDG_STATE_HOME": "/x %h"}).out)
    done = helpers.run_command(["systemd-analyze", "verify", *([] if words else ["--user"]), unit])
    assert (done.code, [line for line in done.err.splitlines() if "longwatch-x" in line]) == (0, [])


def test_the_unit_has_what_a_service_manager_leaves_out(file: Path) -> None:
    """Paths of programs, language and folders are those of the shell that asked; the folder is that of the file."""
    done = helpers.run_cli(
        "unit",
        "--config",
        file,
        env={"PATH": "/opt/a b:/usr/bin:/bin", "LANG": "C.UTF-8", "XDG_STATE_HOME": "/x%h"},
    )
    assert 'Environment="PATH=/opt/a b:/usr/bin:/bin"\n' in done.out
    assert 'Environment="LANG=C.UTF-8"\n' in done.out
    assert 'Environment="XDG_STATE_HOME=/x%%h"\n' in done.out
    quoted = str(file).replace("%", "%%").replace('"', '\\"')
    assert f'up --config "{quoted.replace("$", "$$")}"\n' in done.out
    assert f"WorkingDirectory={str(file.parent).replace('%', '%%')}\n" in done.out
    assert "XDG_RUNTIME_DIR" not in done.out
    assert "User=" not in done.out


def test_a_unit_of_the_system_runs_as_whoever_asked(file: Path) -> None:
    """It names the user, and the folder where the verbs look for the socket."""
    done = helpers.run_cli("unit", "--config", file, "--system")
    assert f"\nUser={USER}\n" in done.out
    assert f'Environment="XDG_RUNTIME_DIR={os.environ["XDG_RUNTIME_DIR"]}"\n' in done.out
    assert settings(done.out)["WantedBy"] == "multi-user.target"
    assert "linger" not in done.err


def test_printing_says_what_is_next(file: Path, home: Path) -> None:
    """Stdout is the unit alone; where it would go and how it outlives a log-out are said on stderr."""
    done = helpers.run_cli("unit", "--config", file)
    assert done.out.startswith("[Unit]\n")
    assert f"--install writes {home}/.config/systemd/user/longwatch-agents-100" in done.err
    assert f"loginctl enable-linger {USER} lets it live on" in done.err
    assert not (home / ".config" / "systemd").exists()


def test_install_writes_and_runs_nothing(file: Path, home: Path) -> None:
    """The file is put in place, again too, and the commands are printed."""
    for _ in range(2):
        done = helpers.run_cli("unit", "--config", file, "--install")
        (unit,) = (home / ".config/systemd/user").iterdir()
        assert done.code == 0
        assert done.out.splitlines() == [
            f"{unit} is written; next:",
            "  systemctl --user daemon-reload",
            f"  systemctl --user enable --now {unit.name}",
            f"  loginctl enable-linger {USER}",
        ]
        assert unit.read_text() == helpers.run_cli("unit", "--config", file).out
        assert stat.S_IMODE(unit.stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("words", [[], ["--install"]])
def test_what_a_shell_has_and_a_service_has_not_is_told(words: list[str], file: Path) -> None:
    """A variable that only the shell has would end the service at its start; in env_file it is well."""
    file.write_text('[harness.w]\ncommand = ["sleep", "60"]\nenv = { KEY = "${OF_MY_SHELL}" }\n')
    shell = {"OF_MY_SHELL": "0123456789"}
    assert helpers.run_cli("config", "check", file, env=shell).code == 0
    done = helpers.run_cli("unit", "--config", file, *words, env=shell)
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "would not start" in line]
    assert "longwatch.toml:3:9: [harness.w] env.KEY" in line
    assert "env_file" in line
    assert "0123456789" not in done.out + done.err
    (file.parent / "keys").write_text("OF_MY_SHELL=0123456789\n")
    file.write_text(file.read_text() + 'env_file = "keys"\n')
    assert "would not start" not in helpers.run_cli("unit", "--config", file, *words).err


def test_a_folder_that_cannot_be_written_is_one_line(file: Path, home: Path) -> None:
    """What is in the way is named."""
    (home / ".config").mkdir(exist_ok=True)
    (home / ".config" / "systemd").write_text("a file in the way")
    done = helpers.run_cli("unit", "--config", file, "--install")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "systemd/user/longwatch-agents" in done.err


def test_for_programs(file: Path) -> None:
    """JSON has the unit, where it goes and what is next."""
    told = json.loads(helpers.run_cli("unit", "--config", file, "--json").out)
    assert told["schema"] == 1
    assert told["installed"] is False
    assert told["problems"] == []
    assert told["unit"].startswith("[Unit]")
    assert told["path"].endswith(told["name"])
    assert told["next"][-1].startswith("loginctl")


def test_without_a_file_there_is_no_unit(tmp_path: Path) -> None:
    """There is nothing to run without a file, and one with a line break in its path cannot be told."""
    assert helpers.run_cli("unit", cwd=tmp_path).code == 2
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    (folder / "longwatch.toml").write_text("")
    done = helpers.run_cli("unit", cwd=folder)
    assert done.code == 2
    assert "cannot stand in a unit; rename it" in done.err


@pytest.mark.parametrize(
    ("environ", "there"),
    [
        ({}, "/home/me/.config/systemd/user"),
        ({"XDG_CONFIG_HOME": "relative"}, "/home/me/.config/systemd/user"),
        ({"XDG_CONFIG_HOME": "/conf"}, "/conf/systemd/user"),
    ],
)
def test_where_systemd_looks(environ: dict[str, str], there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the user's config folder, which is no relative path; for all users in a folder of the system."""
    monkeypatch.setenv("HOME", "/home/me")
    assert units.folder(environ, system=False) == there
    assert units.folder(environ, system=True) == "/etc/systemd/system"


def test_what_is_next_needs_the_rights_of_whose_service_it_is() -> None:
    """The system's takes root; one's own has to be allowed to outlive the session."""
    steps = ["daemon-reload", "enable --now x.service"]
    assert units.next_commands("x.service", system=True) == [f"sudo systemctl {step}" for step in steps]
    *own, linger = units.next_commands("x.service", system=False)
    assert own == [f"systemctl --user {step}" for step in steps]
    assert linger.startswith("loginctl enable-linger ")
