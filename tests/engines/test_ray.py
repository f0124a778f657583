"""What only a cluster can lose: a node, its head; and what is refused before anything is sent there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from clusters import ENVIRON, Cluster
from longwatch.runtime.engines.protocol import GONE, REFUSED, EngineError
from longwatch.runtime.runfiles import EXIT, read
from placed import Bench, none_left

pytestmark = pytest.mark.engine


@pytest.fixture
def ray(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Return the engine."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    made = Bench("ray", {"address": cluster.address}, tmp_path)
    yield made
    made.close()


def test_nodes_are_looked_at(ray: Bench) -> None:
    """Both nodes answer with their places, and with what they run."""
    nodes = ray.ask("nodes")
    assert [node["free"] for node in nodes] == [4, 4]
    assert len({node["node"] for node in nodes}) == 2


def test_a_removed_node_takes_its_runs_along(ray: Bench, cluster: Cluster, tmp_path: Path) -> None:
    """Its raylet is killed: nothing of the run is left, and nobody claims that it was proven clean."""
    run, pids = ray.tree(tmp_path, "deaf")
    number = cluster.node_of(ray.beside(run)[0])
    cluster.remove(number)
    try:
        none_left([*pids, *run.who()], 20)
        told = helpers.wait_until(lambda: gone(ray, run.handle), 40, "word of it")
        assert (told["here"], told["clean"], told["exit"]) == (False, False, None)
        ended = read(run.folder, EXIT)
        assert ended is not None
        assert ended["cause"] == "parent"
    finally:
        cluster.add()


def gone(bench: Bench, handle: dict[str, object]) -> dict[str, object] | None:
    """Return what is told of a run that is not there; None as long as nobody knows."""
    try:
        told = bench.ask("locate", handle)
    except EngineError:
        return None
    return None if told["here"] else dict(told)


def test_a_call_for_a_run_that_is_gone(ray: Bench, tmp_path: Path) -> None:
    """It is told as that, and not as any failure."""
    run, pids = ray.tree(tmp_path)
    ray.ask("stop", run.handle, "let go", None, 0)
    none_left([*pids, *run.who()])
    with pytest.raises(EngineError) as caught:
        ray.ask("renew", run.handle, 0, run.stamp, 0)
    assert caught.value.kind == GONE
    # What it printed is read from its node all the same.
    assert b"alive" in run.output()[1]


def test_an_open_cluster_is_refused(ray: Bench, tmp_path: Path) -> None:
    """An address that others reach is not used without a token; nothing is sent to it, not even a greeting."""
    other = Bench("ray", {"address": "192.0.2.7:6379"}, tmp_path)
    with pytest.raises(EngineError, match="RAY_AUTH_MODE=token") as caught:
        other.ask("nodes")
    assert caught.value.kind == REFUSED
    other.close()


@pytest.mark.parametrize(
    ("address", "words"), [("127.0.0.1:1", "no Ray cluster answers"), ("ray://localhost:10001", "HOST:PORT")]
)
def test_no_cluster_is_told_at_once(ray: Bench, tmp_path: Path, address: str, words: str) -> None:
    """In a line, and not after minutes of trying."""
    other = Bench("ray", {"address": address}, tmp_path)
    with pytest.raises(EngineError, match=words):
        other.ask("nodes", limit=20_000)
    other.close()


@pytest.mark.timeout(240)
def test_a_lost_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is killed: who supervises lives on, and though it goes on renewing, Ray's nodes go and the run with them."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(tmp_path)
    bench = Bench("ray", {"address": cluster.address}, tmp_path)
    try:
        run, pids = bench.tree(tmp_path, "deaf", lease=20_000)
        helpers.kill_all(cluster.head)

        def over() -> bool:
            try:
                run.renew(1_000)
            except EngineError:
                pass
            return read(run.folder, EXIT) is not None

        helpers.wait_until(over, 200, "the end of the run")
        none_left([*pids, *run.who()])
        assert read(run.folder, EXIT)["cause"] in ("parent", "lease")
    finally:
        bench.runs.clear()
        bench.close()
        cluster.close()
