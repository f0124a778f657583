"""What holds for every test: a home of its own, and no process left behind."""

import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
import measure

if measure.CHOSEN in os.environ:
    measure.start()

# What the machine or the shell may have set, and what would change how the programs under test behave.
UNWANTED = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "TMUX", "NO_COLOR", "FORCE_COLOR")
FOLDERS = {
    "XDG_STATE_HOME": ".local/state",
    "XDG_CONFIG_HOME": ".config",
    "XDG_CACHE_HOME": ".cache",
    "XDG_DATA_HOME": ".local/share",
}
PURE = helpers.ROOT / "tests" / "core"
# How long what a test has ended may take to be gone, in seconds.
DYING = 2.0


def pytest_configure() -> None:
    """Undo what `nohup` and `&` leave behind: a shell cannot even trap a signal that it was started without."""
    for number, usual in {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand out the files that take longest first, so that no worker is left with one of them at the end."""
    listed = (helpers.ROOT / "tests" / "slowest.txt").read_text().split()
    ranks = {name: rank for rank, name in enumerate(listed)}
    items.sort(key=lambda item: ranks.get(os.path.relpath(item.path, helpers.ROOT), len(ranks)))


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the homes of this worker's tests."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session")
def runtimes() -> Iterator[Path]:
    """Return the folder of this worker's runtime folders: a short path, as it is everywhere, for sockets need one."""
    folder = tempfile.mkdtemp(prefix="lw-", dir="/tmp")
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def home(homes: Path, runtimes: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give the test an empty home, and environment variables that hold nothing of the user's."""
    folder = homes / hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    folder.mkdir(exist_ok=True)
    runtime = runtimes / folder.name[:8]
    runtime.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in [*UNWANTED, *(name for name in os.environ if name.startswith("LONGWATCH_"))]:
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(folder))
        for name, place in FOLDERS.items():
            patch.setenv(name, str(folder / place))
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        yield folder


@pytest.fixture(autouse=True)
def leak_check(home: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process behind, however it got away, and end that process.

    A child of the test is found by its parent, all others by a mark in the environment they were started with.
    Tests of the core start nothing, and are many: they are spared the look at all processes.
    """
    if PURE in request.path.parents:
        yield
        return
    # With our own pid: the same test may run in another session at this moment.
    marker = f"{helpers.MARKER}={home.name}.{os.getpid()}"
    before = set(helpers.descendants())
    left: dict[int, str] = {}

    def tidy() -> bool:
        found = {*helpers.processes_with(marker), *helpers.descendants()} - before
        left.clear()
        left.update({pid: helpers.command_line(pid)[:80] for pid in sorted(found)})
        return not left

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*marker.split("="))
        yield
    try:
        helpers.wait_until(tidy, DYING)
    except AssertionError:
        helpers.kill_all(list(left))
        named = ", ".join(f"{pid} {words}" for pid, words in left.items())
        pytest.fail(f"left running: {named}", pytrace=False)


@pytest.fixture
def state(home: Path) -> Path:
    """Return the folder where longwatch keeps its state in this test."""
    return home / FOLDERS["XDG_STATE_HOME"] / "longwatch"


@pytest.fixture
def longwatch() -> str:
    """Return the path of the installed script."""
    assert helpers.LONGWATCH.exists(), "run `make venv` first"
    return str(helpers.LONGWATCH)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[helpers.Tmux]:
    """Return a tmux of the test's own; skip where there is none."""
    if not helpers.have("tmux"):
        pytest.skip("tmux is not installed")
    terminal = helpers.Tmux(tmp_path)
    yield terminal
    terminal.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transcripts be searched for at each look, not only now and then."""
    monkeypatch.setattr("longwatch.observe.transcript.SEARCH", 0)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the directory in which agents work."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder
