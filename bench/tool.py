"""What a command of a model's costs above a plain one: TOOL-1 in a program that stays, TOOL-2 from a shell."""

import subprocess

from bench.figures import Figure, at_most
from bench.lab import Failed, Lab, medians, wall


def tool_1(lab: Lab) -> list[Figure]:
    """One call of `CommandTool`, tree proven empty, beside `subprocess.run`, which looks at nothing but the child."""
    argv = [*lab.program("tool_calls"), str(lab.rounds(200, 30)), *lab.tool("noop", static=True)]
    done = subprocess.run(argv, env=lab.env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {done.stderr[-500:]}")
    ours, theirs = map(float, done.stdout.split())
    note = f"µs: CommandTool {ours:.0f}, subprocess {theirs:.0f}"
    return [at_most("TOOL-1", "a CommandTool call / subprocess.run", ours / theirs, 4, note=note)]


def tool_2(lab: Lab) -> list[Figure]:
    """`longwatch tool`, which starts a keeper and prints an object, beside a bare interpreter."""
    ours, bare = [lab.longwatch, "tool", "--", "true"], [lab.python, "-c", "pass"]
    found = medians({"tool": wall(lab, *ours), "python": wall(lab, *bare)}, lab.rounds(40, 9))
    note = f"{found['tool']:.1f} and {found['python']:.1f} ms"
    return [at_most("TOOL-2", "tool -- true / python -c pass", found["tool"] / found["python"], 5, note=note)]
