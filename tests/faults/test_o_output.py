"""Output: any amount of it in fixed memory, and every byte as it was."""

import os
import subprocess
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from supervised import python, read_report, supervise

MB = 1 << 20


def resident(pid: int) -> int:
    """Return the most memory (kB) that a process has held; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


@pytest.mark.slow
@pytest.mark.fault("O1")
@pytest.mark.parametrize("logged", [True, False], ids=["log", "no-log"])
@pytest.mark.parametrize("size", [300, pytest.param(1024, marks=pytest.mark.soak)])
def test_a_flood_fits_into_fixed_memory(size: int, logged: bool, tmp_path: Path) -> None:
    """Hundreds of megabytes pass with less than 50 MB of growth, a small log stays small, what was cut is told."""
    log, report = tmp_path / "log", tmp_path / "report"
    flags = ["--report", report, *(["--log", log, "--log-max", "1MiB"] if logged else [])]
    wait = "import sys; sys.stdin.readline()\n"
    flood = children.flood(size * MB)
    argv = [helpers.LONGWATCH, "run", *flags, "--", flood[0], "-c", wait + flood[2]]
    environment = helpers.environment(measured=False)
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as process,
        helpers.ending(process),
    ):
        helpers.wait_until(lambda: helpers.descendants(process.pid), what="the program")
        before = most = resident(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()

        def over() -> bool:
            nonlocal most
            most = max(most, resident(process.pid))
            return process.poll() is not None

        helpers.wait_until(over, 50)
        assert process.returncode == 0
    told = read_report(report)["stdout"]
    assert (told["bytes"], told["truncated"], told["lost"]) == (size * MB, True, 0)
    assert len(told["head"]) + len(told["tail"]) < MB
    assert before > 0
    assert most - before < 50 * 1024
    if logged:
        assert sum(os.stat(path).st_size for path in tmp_path.glob("log*")) <= 2 * MB


EURO = "€".encode()


@pytest.mark.fault("O2")
def test_characters_split_over_time_arrive_as_they_were(tmp_path: Path) -> None:
    """The bytes of one character 200 ms apart, both streams in turns, come through and are decoded as one."""
    log = tmp_path / "log"
    body = [
        "import os, time",
        f"for byte in {list(EURO)}:",
        "    os.write(1, bytes([byte])); time.sleep(0.1); os.write(2, bytes([byte])); time.sleep(0.1)",
    ]
    run = supervise("--idle", "20s", "--log", log, program=python(*body))
    assert (run.code, run.out, run.err) == (0, "€", "€")
    assert (run.report["stdout"]["head"], run.report["stderr"]["head"]) == ("€", "€")
    assert log.read_bytes() == bytes(byte for byte in EURO for _ in range(2))


@pytest.mark.fault("O2")
@pytest.mark.capability("CAP-11")
def test_any_bytes_pass_unchanged_and_count(tmp_path: Path) -> None:
    """What is no text in any encoding is passed on byte for byte, counts as progress, and spoils no report."""
    log = tmp_path / "log"
    body = "import os, time\nfor i in range(256): os.write(1, bytes([i])); time.sleep(0.002)"
    run = supervise("--idle", "400ms", "--log", log, program=python(*body.splitlines()))
    assert (run.code, run.reason) == (0, "exited")
    assert run.out.encode("utf-8", "surrogateescape") == bytes(range(256))
    assert log.read_bytes() == bytes(range(256))
    assert "\ufffd" in run.report["stdout"]["head"]


@pytest.mark.fault("O1")
def test_the_order_of_a_shared_output_holds() -> None:
    """Where stdout and stderr are the same pipe the child gets one pipe too: the order of its writes is kept."""
    body = ["import os", "for i in range(500): os.write(1 + i % 2, b'%d\\n' % i)"]
    run = supervise("--idle", "20s", program=python(*body), stderr=subprocess.STDOUT)
    assert run.out == "".join(f"{i}\n" for i in range(500))
    assert run.report["merged"] is True
