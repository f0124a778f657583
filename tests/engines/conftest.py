"""The same contract for each engine. Of Ray there is one cluster for all tests, started by the first that wants it."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from clusters import ENVIRON, Cluster
from placed import Bench

HAVE_RAY = importlib.util.find_spec("ray") is not None


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a head and two nodes on loopback."""
    if not HAVE_RAY:
        if "LONGWATCH_ENGINES" in os.environ:
            pytest.fail("ray is not installed: this environment is made for it")
        pytest.skip("ray is not installed; make test-engines has it")
    made = Cluster(Path(tmp_path_factory.mktemp("c")))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.engine)])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Return an engine to place runs with."""
    words: dict[str, object] = {}
    if request.param == "ray":
        cluster: Cluster = request.getfixturevalue("cluster")
        for name, value in ENVIRON.items():
            monkeypatch.setenv(name, value)
        words = {"address": cluster.address}
    made = Bench(request.param, words, tmp_path)
    if request.param == "ray":
        made.more = (cluster.session,)
    yield made
    made.close()


@pytest.fixture
def leak_check(home: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process of its own behind. Ray's own come and go with its cluster, and carry no mark."""
    marker = f"{helpers.MARKER}={home.name}.{os.getpid()}"
    ray = "[ray" in request.node.name or request.path.name == "test_ray.py"
    before = set(helpers.descendants())
    with pytest.MonkeyPatch.context() as patch:
        if not ray:
            patch.setenv(*marker.split("="))
        yield
    left: list[int] = []

    def tidy() -> bool:
        found = set(helpers.processes_with(marker)) | (set() if ray else set(helpers.descendants()) - before)
        left[:] = sorted(found)
        return not left

    try:
        helpers.wait_until(tidy, 8.0)
    except AssertionError:
        named = [f"{pid} {helpers.command_line(pid)[-100:]}" for pid in left]
        helpers.kill_all(left)
        pytest.fail(f"left running: {named}", pytrace=False)
