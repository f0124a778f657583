"""What is seen of a batch while it runs: its items' lines, a line of progress at a terminal, a heartbeat off it.

Whoever reads us never holds the batch up: what a slow reader does not take at once is dropped, and counted.
"""

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

from longwatch import paths
from longwatch.cli.render import clean, how_it_ended, when
from longwatch.config.plan_file import Loaded
from longwatch.core.redact import Redactor
from longwatch.core.workstream import COMPLETED, FAILED, LIFECYCLES, PENDING, RUNNING
from longwatch.hands import checkpoints
from longwatch.paths import rfc3339
from longwatch.redaction import Redaction
from longwatch.runtime.batch import Batch
from longwatch.runtime.host import Host
from longwatch.runtime.running import Running
from longwatch.units import ago, format_size

#: With more items than this their lines are not shown, only how many are in which state.
FEW = 20
REFRESH = 1_000
#: A line that does not end is shown in pieces of this size.
_LONGEST = 4_096
#: So many bytes of an item are shown in a second.
_MOST = 256 << 10
_CLEAR = "\r\x1b[K"


class Writer:
    """A descriptor that is written to only as far as it takes bytes at once."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.dropped = 0
        self._torn = False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def line(self, text: str) -> None:
        """Write a line, or count it as dropped."""
        data = (text + "\n").encode(errors="replace")
        if self._torn:
            data = b"\n" + data
        for start in range(0, len(data), select.PIPE_BUF):
            if not self._write(data[start : start + select.PIPE_BUF]):
                self.dropped += 1
                self._torn = self._torn or start > 0
                return
        self._torn = False

    def _write(self, piece: bytes) -> bool:
        try:
            return bool(self._poll.poll(0)) and os.write(self.descriptor, piece) == len(piece)
        except OSError:
            return False


class Prefixed:
    """The lines of one item, each behind its id, as fast as somebody could read them: a log has the rest."""

    def __init__(self, item: str, show: "View", width: int, redactor: Redactor | None) -> None:
        self._head = f"{clean(item):<{width}} | "
        self._show = show
        self._redactor = redactor
        self._rest = b""
        self._second = self._shown = self._left_out = 0

    def feed(self, data: memoryview) -> None:
        """Take bytes as they come."""
        second = self._show.second()
        if second != self._second:
            self._second, self._shown = second, 0
        if self._shown + len(data) > _MOST:
            self._left_out += len(data)
            self._rest = b""
            return
        self._say_left_out()
        self._shown += len(data)
        self._take(bytes(data) if self._redactor is None else self._redactor.feed(bytes(data)))

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._say(line)

    def end(self) -> None:
        """Show what had no line break."""
        if self._redactor is not None:
            self._take(self._redactor.flush())
        if self._rest:
            self._say(self._rest)
            self._rest = b""
        self._say_left_out()

    def _say_left_out(self) -> None:
        if self._left_out:
            self._show.out(f"{self._head}({format_size(self._left_out)} not shown, its log has them)")
            self._left_out = 0

    def _say(self, line: bytes) -> None:
        self._show.out(self._head + clean(line.rstrip(b"\r").decode(errors="replace")))


class View:
    """Shows one run of a plan. `told` is what the batch tells."""

    def __init__(self, host: Host, loaded: Loaded, heartbeat: int, redaction: Redaction) -> None:
        self._redaction = redaction
        self._host = host
        self._loaded = loaded
        self._heartbeat = heartbeat
        self._began = host.now()
        self._terminal = os.isatty(2)
        self._few = len(loaded.works) <= FEW
        self._width = max((len(work.id) for work in loaded.works), default=0)
        self._lines: dict[str, Prefixed] = {}
        self._stdout, self._stderr = Writer(1), Writer(2)
        self._batch: Batch | None = None
        self._drawn = False

    def begin(self, batch: Batch) -> None:
        """Show from now on."""
        self._batch = batch
        if self._terminal:
            self._redraw(0)
        elif self._heartbeat:
            self._host.at(self._host.now() + self._heartbeat, self._beat)

    def end(self) -> None:
        """Show no more."""
        self._batch = None
        self._wipe()
        if dropped := self._stdout.dropped:
            self._stderr.line(
                f"longwatch: {dropped} lines were not shown, for nobody read them in time; the logs have them"
            )

    def out(self, text: str) -> None:
        """Show a line of an item."""
        self._wipe()
        self._stdout.line(text)

    def second(self) -> int:
        """Return the second that it is."""
        return self._host.now() // 1_000

    def ending(self, *, at_once: bool) -> None:
        """Somebody wants it to end."""
        self._note(
            "killing what runs"
            if at_once
            else "stopping what runs; it can be resumed. Once more kills at once"
        )

    # -- what the batch tells

    def told(self, kind: str, item: str, **more: Any) -> None:
        """Hear what happened to an item."""
        running = more.get("running")
        if isinstance(running, Running) and self._few:
            lines = self._lines[item] = Prefixed(item, self, self._width, self._redaction.stream())
            for pump in running.process.pumps.values():
                pump.taps.append(lines.feed)
        if kind == "ended" and item in self._lines:
            self._lines.pop(item).end()
        text = self._words(kind, item, more)
        if text:
            self._note(text)

    def _words(self, kind: str, item: str, more: Mapping[str, Any]) -> str:
        name = clean(item)
        if kind == "note":
            return f"{name}: {clean(more['text'])}" if name else clean(more["text"])
        if kind == "marked":
            return f"{name}: over its budget; marked, and it goes on"
        if kind == "stopping":
            return f"{name}: stopping ({clean(more['reason'])})"
        if kind == "taken up":
            return f"{name}: found running, and followed again"
        if kind == "ended":
            return self._ended(name, item, more)
        return f"{name}: started" if kind == "started" and self._few else ""

    def _ended(self, name: str, item: str, more: Mapping[str, Any]) -> str:
        assert self._batch is not None
        state = self._batch.states[item]
        if state["lifecycle"] == COMPLETED and not self._few:
            return ""
        report = more.get("report") or {}
        why = (
            str(report["notes"][0])
            if report.get("termination_reason") == "spawn_failed" and report.get("notes")
            else how_it_ended(report)
        )
        if state.get("parked_until") and more.get("again"):
            until = when(rfc3339(state["parked_until"]), brief=True)
            return f"{name}: met its provider's limit; it goes on at {until}"
        again = "; it is tried again" if more.get("again") else ""
        return f"{name}: {state['lifecycle']}, {clean(why)}{again}"

    def _note(self, text: str) -> None:
        self._wipe()
        self._stderr.line(f"longwatch: {text}")

    # -- progress

    def counts(self) -> dict[str, int]:
        """Return how many items are in which state."""
        assert self._batch is not None
        found = dict.fromkeys(LIFECYCLES, 0)
        for work in self._loaded.works:
            found[self._batch.plan.lifecycle(work.id)] += 1
        return found

    def _redraw(self, now: int) -> None:
        if self._batch is None:
            return
        self._wipe()
        counts = self.counts()
        done, total = (
            sum(counts[name] for name in LIFECYCLES if name not in (PENDING, RUNNING)),
            len(self._loaded.works),
        )
        parts = [f"{done}/{total} over", f"{counts[RUNNING]} running"]
        failed = sum(counts[name] for name in FAILED)
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{counts[PENDING]} to come"] if counts[PENDING] else []
        text = f"{clean(self._loaded.name)}: {', '.join(parts)}, {ago(self._host.now() - self._began)}"
        width = os.get_terminal_size(2).columns
        os.write(2, f"\r\x1b[K{text[: width - 1]}".encode())
        self._drawn = True
        self._host.at(self._host.now() + REFRESH, self._redraw)

    def _wipe(self) -> None:
        if self._drawn:
            self._drawn = False
            os.write(2, _CLEAR.encode())

    def _beat(self, now: int) -> None:
        """Write a line for programs: how many are in which state, and each item that is begun."""
        if self._batch is None:
            return
        counts = self.counts()
        summary = {
            "running": counts[RUNNING],
            "completed": counts[COMPLETED],
            "failed": sum(counts[name] for name in FAILED),
            "pending": counts[PENDING],
            "total": len(self._loaded.works),
        }
        told = {
            "type": "heartbeat",
            "schema": 1,
            "ts": rfc3339(time.time_ns() // 1_000_000),
            "elapsed_ms": self._host.now() - self._began,
            "summary": summary,
            "items": [self._item(state) for state in self._batch.states.values()],
        }
        self._stderr.line(json.dumps(told))
        self._host.at(self._host.now() + self._heartbeat, self._beat)

    def _item(self, state: Mapping[str, Any]) -> dict[str, Any]:
        assert self._batch is not None
        running = self._batch.running(state["id"])
        progress = None if running is None else running.clocks[1]
        named = [] if running is None else checkpoints(paths.state(), running.run_id)
        return {
            "id": state["id"],
            "lifecycle": state["lifecycle"],
            "step": self._batch.step(state["id"]),
            "attempt": state["attempt"],
            "run": state.get("run"),
            "checkpoint": named[-1] if named else state.get("checkpoint"),
            "log": state.get("log"),
            "progress_ms": None if progress is None else max(0, self._host.now() - progress),
        }
