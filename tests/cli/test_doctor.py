"""`longwatch doctor`: what it finds on this machine, what it advises, and when it fails."""

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.cli import machine, standing
from longwatch.cli.doctor import CHECKS
from longwatch.cli.machine import FINE, WEAKER, WRONG
from longwatch.posix import libc

ALL = [*(check.name for check in CHECKS), *standing.CHECKS]


def report(**options: Any) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status and what was found by name."""
    done = helpers.run_cli("doctor", "--json", **options)
    answer = json.loads(done.out)
    assert answer["schema"] == 1
    assert answer["ok"] == (done.code == 0)
    return done.code, {check["name"]: check for check in answer["checks"]}


def test_doctor_checks_everything() -> None:
    """Every check answers; on a machine that runs these tests nothing is wrong."""
    status, found = report()
    assert status == 0
    assert list(found) == ALL
    assert {check["status"] for check in found.values()} <= {FINE, WEAKER}
    assert sys.version.split()[0] in found["python"]["detail"]
    assert (
        "1 MiB" in found["pipes"]["detail"] or found["pipes"]["status"] == WEAKER or "no quota" in str(found)
    )


def test_doctor_for_people(home: Path) -> None:
    """One line for each check, with the folders it means."""
    done = helpers.run_cli("doctor")
    assert done.code == 0
    assert f"{home}/.local/state/longwatch, not made yet" in done.out
    assert len([line for line in done.out.splitlines() if line[:4] in ("ok  ", "note")]) == len(ALL)


def test_doctor_tells_the_size_of_the_state(state: Path) -> None:
    """An existing folder is told with the bytes in it."""
    (state / "runs").mkdir(parents=True)
    (state / "runs" / "x").write_bytes(b"x" * 2_048)
    assert report()[1]["state"]["detail"] == f"{state}, 2KiB"


def test_doctor_fails_where_no_state_can_be_written(home: Path) -> None:
    """A state folder that cannot be made is wrong, with what to do, and the exit status says so."""
    (home / ".local").write_text("a file in the way")
    status, found = report()
    assert status == 1
    assert found["state"]["status"] == WRONG
    assert "cannot be made" in found["state"]["detail"]
    assert found["state"]["next"] == f"make {home / '.local'} writable"


def test_doctor_fails_with_few_descriptors() -> None:
    """A limit on open files that is too low for one run is wrong, with the command that raises it."""
    argv = ["sh", "-c", 'ulimit -S -n 40; exec "$0" doctor --json', str(helpers.LONGWATCH)]
    done = helpers.run_command(argv)
    found = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert done.code == 1
    assert found["open files"]["status"] == WRONG
    assert found["open files"]["next"].startswith("ulimit -n ")


def test_missing_runtime_folder_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a runtime folder is weaker, not wrong."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert machine.runtime_folder().status == WEAKER


def refused(*_: object) -> int:
    """Refuse as an old kernel does."""
    raise OSError(38, "Function not implemented")


def test_an_old_kernel_is_weaker_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pidfd, tee, subreaper, children files and cgroups longwatch works, and says what stands in for them."""
    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    monkeypatch.setattr(os, "splice", refused)
    monkeypatch.setattr(libc, "become_subreaper", lambda: False)
    monkeypatch.setattr(os.path, "exists", lambda _path: False)
    for look in (machine.pidfd, machine.pidfd_info, machine.tee_and_splice, machine.subreaper,
                 machine.children_files, machine.cgroup_kill):  # fmt: skip
        assert look().status == WEAKER, look
    assert "ENOSYS" in machine.pidfd().detail


def test_a_spent_quota_of_pipes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe of 1 MiB that the kernel refuses now is told with the quota."""

    def no_more(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(fcntl, "fcntl", no_more)
    found = machine.pipes()
    assert found.status == WEAKER
    assert "refused now (EPERM)" in found.detail


@pytest.mark.parametrize(
    ("missing", "status", "wanted"), [("pyte", WEAKER, "longwatch[all]"), ("click", WRONG, "longwatch")]
)
def test_missing_packages_come_with_the_command(
    missing: str, status: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of the extra `all` that is missing is a note, one that every verb needs is wrong."""
    real = machine._version
    monkeypatch.setattr(machine, "_version", lambda name: None if name == missing else real(name))
    found = machine.packages()
    assert found.status == status
    assert f"{missing} missing" in found.detail
    assert found.next == machine.install_command(wanted)


@pytest.mark.parametrize(
    ("prefix", "installer", "command"),
    [
        ("/venv", "pip", f"{sys.executable} -m pip install 'longwatch[all]'"),
        ("/venv", "uv", f"uv pip install --python {sys.executable} 'longwatch[all]'"),
        ("/home/u/.local/share/uv/tools/longwatch", "uv", "uv tool install 'longwatch[all]'"),
        ("/home/u/.local/pipx/venvs/longwatch", "pip", "pipx install --force 'longwatch[all]'"),
    ],
)
def test_install_command_is_that_of_the_installer_in_use(
    prefix: str, installer: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever installed longwatch is who installs the rest."""
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(machine, "_installer", lambda: installer)
    assert machine.install_command("longwatch[all]") == command
