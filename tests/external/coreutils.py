"""Bring coreutils' own tests of `timeout` to this machine, and run one of them against any program.

They are under the GPL and are no part of this project: each machine takes them from its distribution's source
package, through an apt folder of our own, so that neither its settings nor its package lists change.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import helpers

APT = Path("/etc/apt")
# An hour's work for nobody: the index and the archive are 15 MB.
PATIENCE = 240.0
# What the suite's own build would have measured with a C program.
LIMITS = {
    "INT_MAX": 2**31 - 1,
    "UINT_MAX": 2**32 - 1,
    "UINT_OFLOW": 2**32,
    "TIME_T_MAX": 2**63 - 1,
    "TIME_T_OFLOW": 2**63,
    "DBL_MAX": "1.797693e+308",
    "LDBL_MAX": "1.189731e+4932",
}


class UnavailableError(Exception):
    """The source package cannot be had here; the text says why."""


def _without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def source_entries(apt: Path = APT) -> dict[str, str]:
    """Return files for a `sources.list.d` that ask for the sources of what this machine takes as packages."""
    entries = {}
    for path in sorted([apt / "sources.list", *apt.glob("sources.list.d/*")]):
        lines = _without_comments(path.read_text()) if path.is_file() else []
        if path.suffix == ".sources":
            lines = ["Types: deb-src" if line.startswith("Types:") else line for line in lines]
        elif path.suffix == ".list":
            lines = ["deb-src" + line[3:] for line in lines if line.startswith(("deb ", "deb\t"))]
        else:
            continue
        if "".join(lines).strip():
            entries[path.name] = "\n".join(lines) + "\n"
    return entries


def _apt_folder(folder: Path) -> Path:
    """Write an apt folder that knows source packages only; return its configuration file."""
    parts = folder / "sources.list.d"
    for place in (parts, folder / "lists/partial", folder / "cache/archives/partial"):
        place.mkdir(parents=True)
    for name, text in source_entries().items():
        (parts / name).write_text(text)
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": os.devnull,
        "Dir::Etc::sourceparts": parts,
        "Acquire::Retries": 1,
        "Acquire::http::Timeout": 20,
        "Acquire::https::Timeout": 20,
    }
    config = folder / "apt.conf"
    config.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return config


def _download(folder: Path) -> Path:
    """Fetch and unpack the source package below the folder; return its tree."""
    env = {"APT_CONFIG": str(_apt_folder(folder)), "LC_ALL": "C"}
    # An archive of binary packages only makes the first call fail, and is not the one that is wanted.
    helpers.run_command(["apt-get", "-q", "update"], env=env, deadline=PATIENCE)
    done = helpers.run_command(
        ["apt-get", "-q", "--only-source", "source", "coreutils"], env=env, cwd=folder, deadline=PATIENCE
    )
    trees = [path.parent for path in folder.glob("coreutils-*/init.cfg")]
    if done.code or not trees:
        raise UnavailableError(
            f"apt-get source coreutils: {(done.err.strip() or 'nothing').splitlines()[-1]}"
        )
    return trees[0]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch(cache: Path) -> Path:
    """Return a folder with the suite's `tests` and `init.cfg`, downloaded once into the cache.

    UnavailableError where apt or dpkg-source is not installed, or the package is not served.
    """
    missing = [program for program in ("apt-get", "dpkg-source") if not helpers.have(program)]
    if missing:
        raise UnavailableError(f"{' and '.join(missing)} not installed")
    kept, work = cache / "coreutils", cache / "coreutils.new"
    with _locked(cache / "coreutils.lock"):
        if not kept.exists():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            tree = _download(work)
            (tree / "ready").mkdir()
            for name in ("tests", "init.cfg"):
                (tree / name).rename(tree / "ready" / name)
            (tree / "ready").rename(kept)
            shutil.rmtree(work)
    return kept


def scripts(suite: Path) -> list[Path]:
    """Return the suite's tests of `timeout`, wherever this version keeps them."""
    found = [*suite.glob("tests/misc/timeout*"), *suite.glob("tests/timeout/*")]
    return sorted(path for path in found if path.suffix in (".sh", ".pl"))


def run_script(suite: Path, script: Path, program: Path, folder: Path) -> helpers.Finished:
    """Run one script with `program` in the place of `timeout`; status 0 is passed, 77 skipped.

    The program is looked up on PATH by the name `timeout`, so a link keeps that name in its argv[0].
    """
    built = folder / "src"
    built.mkdir(parents=True)
    (built / "timeout").symlink_to(program)
    limits = built / "getlimits"
    limits.write_text("#!/bin/sh\n" + "".join(f"echo {name}={value}\n" for name, value in LIMITS.items()))
    limits.chmod(0o755)
    env = {
        "LC_ALL": "C",
        "AWK": "awk",
        "EGREP": "grep -E",
        "PERL": "perl",
        "SHELL": "/bin/bash",
        "PATH": f"{built}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "srcdir": str(suite),
        "abs_top_srcdir": str(suite),
        "abs_srcdir": str(suite),
        "built_programs": "timeout env sleep",
    }
    argv: list[str | Path] = ["bash", script]
    if script.suffix == ".pl":
        modules = [f"-I{suite}/tests", "-MCuSkip", "-MCoreutils", f"-MCuTmpdir qw({script.name})"]
        argv = ["perl", "-w", *modules, script]
    # The suite tells what it thinks on a copy of stderr.
    argv = ["bash", "-c", 'exec "$@" 9>&2', "bash", *argv]
    return helpers.run_command(argv, env=env, cwd=folder, deadline=120, stderr=subprocess.STDOUT)
