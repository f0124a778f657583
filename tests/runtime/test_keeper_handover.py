"""The keeper under masters that are killed hard: nothing is lost, nothing is doubled, and nothing is left."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import helpers

MASTER = helpers.ROOT / "tests" / "keeper_master.py"
RUNS, TERMINALS = 10, 2
#: A master takes about so long, in seconds, until it has all its runs in hand.
TAKES = 0.25


def master(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-S", MASTER, folder], env=environment(), stdout=-1, text=True)


def environment() -> dict[str, str]:
    return {**helpers.environment(measured=False), "PYTHONPATH": os.pathsep.join(["src", *sys.path])}


def killed_masters(folder: Path, rounds: int, seed: int) -> int:
    """Kill one master after the other at a random moment; return how many of them had come to have all runs."""
    chance = random.Random(seed)
    ready = 0
    for _ in range(rounds):
        with helpers.ending(master(folder)) as process:
            # Half of them while they start, spawn and are lent, half of them at work.
            moment = chance.uniform(0, TAKES)
            if chance.random() < 0.5:
                assert process.stdout is not None
                helpers.wait_until(lambda: os.read(process.stdout.fileno(), 100), what="a master at work")
                ready += 1
                moment = chance.uniform(0, 0.05)
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            else:
                raise AssertionError(f"a master ended by itself: {process.returncode}, {ends_in(folder)}")
    return ready


def ends_in(folder: Path) -> set[str]:
    return set((folder / "ends").read_text().splitlines())


def lines_of(folder: Path, number: int) -> list[str]:
    data = (folder / f"m{number}.lines").read_bytes().rstrip(b"\0")
    return data.decode().splitlines()


def end_of(number: int) -> str:
    return f"m{number} None 9" if number % 5 == 4 else f"m{number} {10 + number} None"


def run(folder: Path, rounds: int, seed: int) -> None:
    ready = killed_masters(folder, rounds, seed)
    assert ready
    (folder / "enough").touch()
    with helpers.ending(master(folder)) as process:
        assert process.wait(30) == 0
    for number in range(RUNS):
        lines = lines_of(folder, number)
        assert [line.split()[0] for line in lines] == [str(n) for n in range(len(lines))], (number, seed)
        assert lines[-1].split()[1] == "end"
        assert not [line for line in lines[:-1] if line.endswith("end")]
        assert len((folder / f"m{number}.starts").read_text().splitlines()) == 1, (number, seed)
    # One who is killed right after it has written an end leaves it to the next to write it once more.
    assert ends_in(folder) == {end_of(number) for number in range(RUNS)}
    helpers.wait_until(lambda: not (folder / "socket").exists(), what="the keeper's end")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_masters_are_killed_hard(seed: int, tmp_path: Path) -> None:
    """Masters are killed at any moment: each of ten programs runs once, loses no line, and its true end is known."""
    run(tmp_path, 6, seed)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_masters_are_killed_hard(seed: int, tmp_path: Path) -> None:
    """The same with two hundred masters, fifty in a row."""
    run(tmp_path, 50, seed)


# Starts programs that get away in every way there is, for as long as it lives.
BUSY = """
import sys
import time
from longwatch.posix.spawn import NULL, Launch
from longwatch.runtime.kept import Keeper

keeper = Keeper.start(grace=100)
for number in range(1000):
    keeper.spawn(Launch(["sh", "-c", sys.argv[1]], None, None, NULL), f"b{number}")
    print(number, flush=True)
"""
AWAY = "setsid sleep 60 & (setsid env -i HELD=$HELD sleep 61 &); exec sleep 62"


def kill_busy_masters(rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(rounds):
        held = f"HELD={os.urandom(8).hex()}"
        env = {**environment(), **dict([held.split("=")])}
        argv = [sys.executable, "-S", "-c", BUSY, AWAY]
        with helpers.ending(subprocess.Popen(argv, env=env, stdout=-1, text=True)) as process:
            if turn % 2:
                assert process.stdout is not None
                process.stdout.readline()
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
            process.wait()
        helpers.wait_until(
            lambda held=held: not helpers.processes_with(held), 20, "the end of all that was started"
        )


@pytest.mark.slow
@pytest.mark.fault("G7")
def test_nothing_outlives_a_busy_master() -> None:
    """A master that is killed while it starts one program after the other leaves none of them, nor its keeper."""
    kill_busy_masters(6, 1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_outlives_a_hundred_busy_masters() -> None:
    """The same a hundred times."""
    kill_busy_masters(100, 2)
