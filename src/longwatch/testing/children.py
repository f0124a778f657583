"""Children that misbehave on purpose, as the argv of one-line Python programs.

Every child ends by itself, most of them after `seconds` at the latest and a flood when nobody reads it any more, so
a test that fails leaves nothing for long. Those that first have something to set up print `ready` when it is done,
so that a test can wait for it.
"""

import sys

#: How long a child stays when nobody ends it, in seconds.
LIFE = 60.0


def _python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(lines)]


def ticker(period: float = 0.1, *, count: int = 0, stream: str = "stdout", text: str = "tick\n") -> list[str]:
    """Print `text` every `period` seconds on a stream: `count` times, or (0) as long as a child lives."""
    return _python(
        "import sys, time",
        f"for tick in range({count or max(1, int(LIFE / period))}):",
        f"    sys.{stream}.write({text!r}); sys.{stream}.flush(); time.sleep({period})",
    )


def silent(seconds: float = LIFE) -> list[str]:
    """Print nothing."""
    return _python(f"import time; time.sleep({seconds})")


def ticks_then_silent(count: int = 3, period: float = 0.05, seconds: float = LIFE) -> list[str]:
    """Print `tick` lines, then nothing."""
    return _python(
        "import time",
        f"for tick in range({count}): print('tick', tick, flush=True); time.sleep({period})",
        f"time.sleep({seconds})",
    )


def ignores_term(seconds: float = LIFE) -> list[str]:
    """Ignore TERM, INT and HUP; print `ready`, then nothing."""
    return _python(
        "import signal, time",
        "for name in ('SIGTERM', 'SIGINT', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)",
        f"print('ready', flush=True); time.sleep({seconds})",
    )


def handles_term(code: int = 0, seconds: float = LIFE) -> list[str]:
    """Answer TERM by printing `bye` and exiting with a code; print `ready` first."""
    return _python(
        "import os, signal, sys, time",
        # Not print: the signal may come while `ready` is still being flushed, and a buffer is not entered twice.
        f"def leave(number, frame): os.write(1, b'bye\\n'); os._exit({code})",
        "signal.signal(signal.SIGTERM, leave)",
        f"print('ready', flush=True); time.sleep({seconds})",
    )


def holds_pipe(seconds: float = 30.0, code: int = 0) -> list[str]:
    """Print `done` and exit at once, while a child of its own holds the output open."""
    return _python(
        "import os, time",
        f"if os.fork() == 0: time.sleep({seconds}); os._exit(0)",
        f"print('done', flush=True); os._exit({code})",
    )


def setsid_child(seconds: float = LIFE) -> list[str]:
    """Start a child in a session of its own, print `ready` and its pid, then stay."""
    return _python(
        "import os, time",
        "pid = os.fork()",
        f"if pid == 0: os.setsid(); time.sleep({seconds}); os._exit(0)",
        f"print('ready', pid, flush=True); time.sleep({seconds})",
    )


def double_fork(seconds: float = LIFE) -> list[str]:
    """Start a daemon the old way (fork, setsid, fork), print `ready` and its pid, then stay."""
    return _python(
        "import os, time",
        "read, write = os.pipe()",
        "middle = os.fork()",
        "if middle == 0:",
        "    os.setsid(); last = os.fork()",
        f"    if last == 0: time.sleep({seconds}); os._exit(0)",
        "    os.write(write, str(last).encode()); os._exit(0)",
        "os.waitpid(middle, 0)",
        f"print('ready', os.read(read, 20).decode(), flush=True); time.sleep({seconds})",
    )


def fork_storm(width: int = 4, seconds: float = 10.0) -> list[str]:
    """Replace itself faster than one can look: `width` chains of processes that fork and exit; print `ready` first.

    The chains end by themselves, so the storm is over after `seconds`.
    """
    return _python(
        "import os, signal, time",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        f"end = time.monotonic() + {seconds}",
        "print('ready', flush=True)",
        f"for chain in range({width}):",
        "    if os.fork() == 0:",
        "        while time.monotonic() < end:",
        "            if os.fork(): os._exit(0)",
        "            time.sleep(0.002)",
        "        os._exit(0)",
        f"time.sleep({seconds})",
    )


def flood(size: int = 0, stream: str = "stdout") -> list[str]:
    """Write `size` bytes as fast as they are taken, or (0) without end."""
    return _python(
        "import os, sys",
        f"out, left, block = sys.{stream}.fileno(), {size} or float('inf'), b'x' * 65535 + b'\\n'",
        "while left > 0: left -= os.write(out, block[:int(min(left, 65536))])",
    )


def reads_stdin() -> list[str]:
    """Read stdin to its end and print how many bytes it had."""
    return _python("import sys", "print(len(sys.stdin.buffer.read()), flush=True)")


def exits(code: int = 0, text: str = "") -> list[str]:
    """Print a text and exit with a code."""
    return _python("import sys", f"sys.stdout.write({text!r}); sys.exit({code})")


def dies(signal: int = 9) -> list[str]:
    """End by a signal of its own, without a core file."""
    return _python(
        "import os, resource, signal",
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
        f"if {signal} not in (signal.SIGKILL, signal.SIGSTOP): signal.signal({signal}, signal.SIG_DFL)",
        f"os.kill(os.getpid(), {signal})",
    )


def stopped(seconds: float = LIFE) -> list[str]:
    """Print `ready` and stop itself, as Ctrl-Z would; when continued, print `back` and stay."""
    return _python(
        "import os, signal, time",
        "print('ready', flush=True); os.kill(os.getpid(), signal.SIGSTOP)",
        f"print('back', flush=True); time.sleep({seconds})",
    )
