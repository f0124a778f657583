"""A preset that was named: what it adds to the command before the start, said once. Recognising one comes later.

Loaded only where `--preset`, `--progress transcript` or `--resume-on-limit` is said.
"""

import os
import select
import stat

from longwatch import presets
from longwatch.cli.main import Front, output_for, say
from longwatch.errors import UsageError
from longwatch.options import DEFAULT, FLAG, PRESET, VARIABLE
from longwatch.posix.spawn import PTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.preset_table import Preset


def prepare_named(front: Front) -> None:
    """Find the named preset, and complete the command by it. Raises UsageError."""
    values = front.values
    front.preset = _named(front)
    if front.preset is not None:
        _complete(front, front.preset)
    elif values.preset is None:
        front.preset = presets.recognised(front.argv)
    if values.resume_on_limit:
        _need_conversation(front)
    if "transcript" not in values.progress:
        return
    if front.preset is None or front.preset.dialect is None:
        _no_transcript(front)
    else:
        _need_reader()


def _need_conversation(front: Front) -> None:
    """Refuse what cannot be resumed; a variable is for those programs that can."""
    unable = front.preset is None or front.preset.resume is None
    if unable and front.values.source("resume-on-limit") == FLAG:
        raise UsageError(
            f"--resume-on-limit: {_none_of_them(front)} that can be resumed; name one with --preset"
        )


def _named(front: Front) -> "Preset | None":
    values = front.values
    if values.preset in (None, presets.NONE):
        return None
    try:
        return presets.named(values.preset)
    except UsageError as error:
        if values.source("preset") == FLAG:
            raise UsageError(f"--preset {error}") from None
        say(f"LONGWATCH_PRESET={error}; the program's own name decides")
        values.drop("preset")
        return None


def _complete(front: Front, preset: "Preset") -> None:
    """Add the preset's words; a variable, which may be meant for other runs, only adds to a program that it knows."""
    if front.values.source("preset") == VARIABLE and presets.recognised(front.argv) is not preset:
        return
    front.argv, made = presets.completed(preset, front.argv)
    for addition in made:
        said = addition.why[:1].lower() + addition.why[1:].rstrip(".")
        say(f"{front.name}: preset {preset.name} adds {' '.join(addition.words)}: {said}")
    if preset.stdin is not None and _is_unneeded(front, preset):
        front.values.put("stdin", "null", PRESET)
        said = preset.stdin.why[:1].lower() + preset.stdin.why[1:].rstrip(".")
        say(f"{front.name}: preset {preset.name} leaves stdin empty: {said}; --stdin inherit keeps it")


def _is_unneeded(front: Front, preset: "Preset") -> bool:
    """Whether nothing is to be read from our stdin: nobody asked for it, and nothing is there."""
    values = front.values
    if values.source("stdin") != DEFAULT or output_for(values) == PTY or "-" in front.argv:
        return False
    return presets.is_headless(preset, front.argv) and not _has_something(0)


def _has_something(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return True
        return bool(select.select([descriptor], [], [], 0)[0]) and not stat.S_ISCHR(mode)
    except OSError:
        return False


def _none_of_them(front: Front) -> str:
    program = os.path.basename(front.argv[presets.program_at(front.argv) % len(front.argv)])
    return f"{program} is none of the agents"


def _need_reader() -> None:
    try:
        import longwatch.observe.dialects  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(
            f"--progress transcript needs the package {error.name}; install it with: pip install 'longwatch[all]'"
        ) from error


def _no_transcript(front: Front) -> None:
    values = front.values
    problem = f"{_none_of_them(front)} whose records are read"
    if values.source("progress") == FLAG:
        raise UsageError(
            f"--progress transcript: {problem}; name one with --preset, longwatch presets lists them"
        )
    if values.source("progress") == VARIABLE:
        say(f"LONGWATCH_PROGRESS=transcript: {problem}; the built-in is used: output")
    values.drop("progress")
