"""Being at work in a process that is nobody's child, and holds nothing of whoever called us."""

import os
import sys
from collections.abc import Callable, Collection

import click

from longwatch import paths
from longwatch.cli.render import fail
from longwatch.errors import LongwatchError

DEFECT = "a defect of longwatch; runner.log in the run's folder has it"
_READY = b"ready\n"


def detached(
    work: Callable[[Callable[[], object]], int], folder: str, log: str, kept: Collection[int]
) -> int:
    """Have `work(ready)` done there; return when it has called `ready`, or fail with its words.

    What it says goes to `log` in `folder`. It holds the descriptors in `kept`, and no others.
    """
    ear, mouth = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        _work(work, folder, log, kept, mouth)
    os.close(mouth)
    os.waitpid(first, 0)
    said = b""
    while chunk := os.read(ear, 4096):
        said += chunk
    os.close(ear)
    if said.endswith(_READY):
        return 0
    return fail(said.decode(errors="replace").strip() or "the runner died while it started")


def _work(
    work: Callable[[Callable[[], object]], int], folder: str, log: str, kept: Collection[int], mouth: int
) -> None:
    """Do it; never returns."""
    status = 1
    try:
        paths.ensure(folder)
        _let_go(os.path.join(folder, log), {*kept, mouth})

        def ready() -> None:
            os.write(mouth, _READY)
            os.close(mouth)

        status = work(ready)
    except (LongwatchError, click.ClickException, OSError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        _last_word(mouth, text)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a fork of ours must not go on as its parent would
        sys.excepthook(*sys.exc_info())
        _last_word(mouth, DEFECT)
    os._exit(status)


def _last_word(mouth: int, text: str) -> None:
    try:
        os.write(mouth, text.encode() + b"\n")
    except OSError:
        return  # it is at work already, and nobody listens


def _let_go(log: str, kept: Collection[int]) -> None:
    """Hold nothing of whoever called us: its descriptors would keep its pipes open for as long as the item runs."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, source in enumerate((null, said, said)):
        os.dup2(source, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # that of the listing itself
    for descriptor in kept:
        os.set_inheritable(descriptor, False)


__all__ = ["DEFECT", "detached"]
