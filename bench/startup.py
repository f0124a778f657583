"""What it costs to put `longwatch run` in front of a command that is over at once: PERF-1 to PERF-3."""

import os
from collections.abc import Callable, Sequence

from bench.figures import Figure, at_most
from bench.lab import Lab, Missing, medians, wall

ROUNDS, QUICK = 40, 9
TRUE = "true"
IMPORT = "import subprocess"


def perf_1(lab: Lab) -> list[Figure]:
    """Against an interpreter that does nothing. The line of history is written, as it always is."""
    found = medians({"longwatch": wall(lab, *lab.run(TRUE)), "python": wall(lab, *_bare(lab))}, _rounds(lab))
    ratio = found["longwatch"] / found["python"]
    note = f"{found['longwatch']:.1f} and {found['python']:.1f} ms; with the line of history, which has no switch"
    return [at_most("PERF-1", "run -- true / python -c pass", ratio, 1.25, note=note)]


def perf_2(lab: Lab) -> list[Figure]:
    """Against the shortest Python program that runs a command."""
    found = medians(
        {
            "longwatch": wall(lab, *lab.run(TRUE)),
            "run": wall(lab, lab.python, "-c", f"{IMPORT}; subprocess.run(['{TRUE}'])"),
            "import": wall(lab, lab.python, "-c", IMPORT),
        },
        _rounds(lab),
    )
    ours = found["longwatch"]
    return [
        at_most("PERF-2", "run -- true / subprocess.run(['true'])", ours / found["run"], 0.55),
        at_most("PERF-2", "run -- true / python -c 'import subprocess'", ours / found["import"], 1.0),
    ]


def perf_3(lab: Lab) -> list[Figure]:
    """With a terminal against those who give one, without against the C program."""
    in_terminal = {
        "script": (lambda: [lab.peer("script"), "-qec", TRUE, os.devnull], 0.60),
        "unbuffer": (lambda: [lab.peer("unbuffer"), TRUE], 0.70),
    }
    figures = [_against(lab, name, argv, bound, ["--pty"]) for name, (argv, bound) in in_terminal.items()]
    return [*figures, _against(lab, "timeout", lambda: [lab.peer("timeout"), "10", TRUE], 5.5)]


def _against(
    lab: Lab, name: str, argv: Callable[[], list[str]], bound: float, options: Sequence[str] = ()
) -> Figure:
    what = f"{' '.join(['run', *options])} -- true / {name} true"
    try:
        cases = {"longwatch": wall(lab, *lab.run(TRUE, options=options)), name: wall(lab, *argv())}
    except Missing as why:
        return at_most("PERF-3", what, None, bound, note=str(why))
    found = medians(cases, _rounds(lab))
    return at_most("PERF-3", what, found["longwatch"] / found[name], bound)


def _bare(lab: Lab) -> list[str]:
    return [lab.python, "-c", "pass"]


def _rounds(lab: Lab) -> int:
    return lab.rounds(ROUNDS, QUICK)
