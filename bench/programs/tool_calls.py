"""Run a program many times, by turns through `CommandTool` and `subprocess.run`; print the medians in µs."""

import subprocess
import sys
import time
from statistics import median

from longwatch import CommandTool


def main() -> None:
    count, argv = int(sys.argv[1]), sys.argv[2:]
    took: dict[str, list[float]] = {"tool": [], "subprocess": []}
    with CommandTool() as tool:
        ways = {
            "tool": lambda: tool(argv),
            "subprocess": lambda: subprocess.run(argv, capture_output=True, check=False),
        }
        for turn in range(count + 1):
            for name, way in ways.items():
                started = time.perf_counter()
                way()
                if turn:
                    took[name].append((time.perf_counter() - started) * 1e6)
    print(*(f"{median(values):.0f}" for values in took.values()))


main()
