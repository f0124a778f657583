"""Install coding-agent CLIs, and run them against the scripted model on loopback.

    python tests/lab/agents.py install codex --into AGENTS
    python tests/lab/agents.py run codex hang --agents AGENTS --into OUT -- longwatch run --idle 5s --

What they are is in agents.toml. Their orphans are caught as a Linux "subreaper".
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from string import Template

from scripted_model import ScriptedModel

AGENTS = tomllib.loads(Path(__file__).with_name("agents.toml").read_text())
PR_SET_CHILD_SUBREAPER = 36
PASSED_ON = ("PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
Command = tuple[list[str], dict[str, str]]  # words and environment


def install(options: argparse.Namespace) -> None:
    """Install an agent, at the version known to work, into a folder of its name."""
    package = AGENTS[options.name]["package"]
    folder = (options.into / options.name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(folder)]
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*(pip if "==" in package else npm), package], check=True)


def prepare(options: argparse.Namespace, home: Path, url: str) -> Command:
    """Write an agent's files, and return how to start it."""
    agent, folder = AGENTS[options.name], (options.agents / options.name).resolve()
    resume = {None: "", "": agent["resume"]}.get(options.resume, agent["resume-id"])
    values = {
        "url": url,
        "folder": str(folder),
        "format": "" if options.plain else agent["format"],
        "approve": "" if options.scenario == "permission" else agent["approve"],
        "resume": resume.replace("$id", options.resume or ""),
    }
    for place, text in agent.get("files", {}).items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text(Template(text).substitute(values))
    env = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    for name, text in agent["env"].items():
        env[name] = Template(text).substitute(values)
    env |= {"HOME": str(home), "TMPDIR": f"{home}/tmp", "TERM": "dumb", "TZ": "UTC"}
    words = shlex.split(Template(agent["start"]).substitute(values))
    program = str(folder / agent["program"])
    return [*options.wrapper, program, *words], env | {"NPM_CONFIG_REGISTRY": url}


def descendants() -> list[int]:
    """Return the ids of all processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [os.getpid()]
    for above in found:  # grows meanwhile
        found += [pid for pid, parent in parents.items() if parent == above]
    return found[1:]


def kill_descendants() -> list[str]:
    """Kill what still runs below this one after a second; return the command lines."""
    killed: dict[int, str] = {}
    grace = time.monotonic() + 1
    while alive := descendants():
        for pid in alive if time.monotonic() > grace else []:
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
                killed.setdefault(pid, " ".join(re.split(r"[\0\s]+", line))[:80])
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.02)
    return [line for line in killed.values() if line]


def run(options: argparse.Namespace) -> None:
    """Run an agent, perhaps below a wrapper, and save what it printed and wrote."""
    into = options.into.resolve()
    home = (options.home or into / "home").resolve()
    work, null = home / "work", subprocess.DEVNULL
    for folder in into, work, home / "tmp":
        folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", work], check=True)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    with (
        open(into / "requests.jsonl", "w") as log,
        open(into / "stdout", "wb") as stdout,
        open(into / "stderr", "wb") as stderr,
        ScriptedModel(options.scenario, log=log) as model,
    ):
        threading.Thread(target=model.serve_forever, daemon=True).start()
        words, env = prepare(options, home, f"http://127.0.0.1:{model.server_port}")
        start = time.monotonic()
        try:
            process = subprocess.Popen(words, cwd=work, env=env, stdin=null, stdout=stdout, stderr=stderr)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(options.limit)
        finally:
            seconds = round(time.monotonic() - start, 1)
            killed = kill_descendants()
            model.shutdown()
    for file in home.glob(AGENTS[options.name]["transcripts"]):
        copy = into / "transcripts" / file.relative_to(home)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    result = {"exit": process.returncode, "seconds": seconds, "left_running": killed}
    (into / "result.json").write_text(json.dumps(result) + "\n")
    print(json.dumps(result))


def main() -> None:
    """Parse the command line; what follows "--" is the wrapper."""
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for action in install, run:
        sub = commands.add_parser(action.__name__, help=action.__doc__)
        sub.set_defaults(action=action, wrapper=sys.argv[cut + 1 :])
        sub.add_argument("name", choices=AGENTS)
        sub.add_argument("--into", type=Path, required=True)
    installed = os.environ.get("LAB_AGENTS", ".cache/agents")
    sub.add_argument("scenario", help="NAME[:N], see scripted_model.py --list")
    sub.add_argument("--agents", type=Path, default=installed, help="installed INTO it")
    sub.add_argument("--home", type=Path, help="the agent's HOME; INTO/home if absent")
    sub.add_argument("--resume", nargs="?", const="", metavar="ID", help="or the last")
    sub.add_argument("--plain", action="store_true", help="let it print plain text, no records")
    sub.add_argument("--limit", type=float, default=300, help="seconds, then killed")
    options = parser.parse_args(sys.argv[1:cut])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    options.action(options)


if __name__ == "__main__":
    main()
