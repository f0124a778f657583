"""`longwatch send`: a line typed into a harness."""

import pytest

import harnesses
import helpers
from harnesses import log, printed

harness, project = harnesses.harness_fixture, harnesses.project_fixture
#: Says what it reads, a line at a time.
READER = "import sys\nprint('up', flush=True)\nfor line in sys.stdin: print('got', ascii(line), flush=True)"


@pytest.mark.capability("CAP-131")
class TestSend:
    """Nothing is said where it went well."""

    def test_a_line_for_a_terminal(self, harness):
        """The text is typed with Enter behind it, and its echo is no progress: the answer alone is."""
        running = harness(READER)
        printed("up")
        count = running.ask("count")
        assert helpers.run_cli("send", "web", "go on ÿ")[:3] == (0, "", "")
        printed("got 'go on \\xff\\n'")
        assert "go on ÿ\n" in log(), "the echo is in the log all the same"
        helpers.wait_until(lambda: running.ask("count") > count)

    @pytest.mark.fault("B1")
    def test_the_echo_alone_is_no_progress(self, harness):
        """A program that does not answer has made none, however often one types."""
        running = harness("import time\nprint('up', flush=True)\ntime.sleep(60)")
        printed("up")
        count = running.ask("count")
        for text in ("one", "two\tthree", "\x01y\x7fx"):
            assert helpers.run_cli("send", "web", text).code == 0
        printed("two\tthree\n^Ay\b \bx")
        assert running.ask("count") == count
        assert running.ask("bytes") > 20

    def test_a_line_for_a_pipe(self, harness):
        """A program without a terminal that was given a pipe for its input reads the line."""
        harness(READER, "pipe")
        printed("up")
        assert helpers.run_cli("send", "web", "--", "-x y").code == 0
        printed("got '-x y\\n'")

    def test_a_harness_that_reads_nothing(self, harness):
        """With neither, one line says so."""
        harness("import time; time.sleep(60)", "null")
        said = helpers.run_cli("send", "web", "text")
        assert (said.code, said.out) == (2, "")
        assert said.err == "longwatch: web reads no input: neither a terminal nor a pipe was given to it\n"

    def test_input_that_is_full(self, harness):
        """A program that does not read keeps nobody waiting: when no more fits it is 75, not now."""
        harness("import time; time.sleep(60)", "pipe")
        codes = [helpers.run_cli("send", "web", "x" * 60_000).code for _ in range(4)]
        assert codes[:2] == [0, 0]
        assert codes[-1] == 75

    def test_nobody_to_ask(self, project):
        """No daemon is 3."""
        said = helpers.run_cli("send", "web", "text")
        assert (said.code, said.out) == (3, "")
