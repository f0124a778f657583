"""`longwatch unit`: a systemd unit for the daemon of a file, printed or put where systemd looks."""

import os
import pwd
import sys
import sysconfig
from collections.abc import Mapping

import click

from longwatch.cli.at_daemon import config_option
from longwatch.cli.render import emit, note
from longwatch.cli.standing import SYSTEMD
from longwatch.config.finding import find
from longwatch.errors import UsageError
from longwatch.paths import daemon_id

SYSTEM_FOLDER = "/etc/systemd/system"
#: What a service manager leaves out and a shell has: where agents are found, and in which language they speak.
_CARRIED = ("PATH", "LANG", "LC_ALL", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
#: Of the user's session; a service of the system has to be told of it, or the verbs would not find its socket.
_RUNTIME = "XDG_RUNTIME_DIR"
#: What every service has.
_GIVEN = ("HOME", "LOGNAME", "SHELL", "USER", _RUNTIME)

#: Restarts, upgrades and a watchdog's kill concern the supervisor alone (KillMode, OOMPolicy): the harnesses live on
#: with their keeper, and the next supervisor takes them over. What stops them is `longwatch down`.
_SERVICE = """\
[Unit]
Description=longwatch, harnesses of {described}
StartLimitIntervalSec=60
StartLimitBurst=10
{unit_more}
[Service]
Type=notify
NotifyAccess=main
ExecStart={command} up --config {config}
ExecReload={command} reload --config {config}
WorkingDirectory={folder}
{environment}
# A restart of this service must not take the harnesses along; longwatch down stops them.
KillMode=process
OOMPolicy=continue
TimeoutStopSec=30
WatchdogSec=60
Restart=on-failure
RestartSec=2
# 2: the file is wrong, and stays so until somebody has changed it.
RestartPreventExitStatus=2
SyslogIdentifier=longwatch
{service_more}
[Install]
WantedBy={wanted_by}
"""


@click.command("unit")
@click.option(
    "--install", is_flag=True, help="Write it where systemd looks, and print the commands that are next."
)
@click.option("--system", is_flag=True, help="A unit of the system that runs as you, not one of your own.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(install: bool, system: bool, config: str | None, as_json: bool) -> None:
    """Print a systemd unit for the daemon of longwatch.toml."""
    path = os.path.realpath(find(config, os.environ, os.getcwd()))
    name = f"longwatch-{daemon_id(path)}.service"
    text = unit(path, os.environ, system=system)
    target = os.path.join(folder(os.environ, system=system), name)
    commands = next_commands(name, system=system)
    problems = in_a_service(path, os.environ)
    if install:
        _write(target, text)
    if as_json:
        emit(
            {"name": name, "path": target, "installed": install, "unit": text, "next": commands, "problems": problems}
        )  # fmt: skip
        return
    for problem in problems:
        note(f"the service would not start: {problem}")
    if install and not os.path.isdir(SYSTEMD):
        note("systemd does not run on this machine")
    if install:
        click.echo(f"{target} is written; next:\n" + "\n".join(f"  {line}" for line in commands))
    else:
        click.echo(text, nl=False)
        note(f"longwatch unit{' --system' * system} --install writes {target}")
        if not system:
            note(f"{commands[-1]} lets it live on when you log out")


def unit(config: str, environ: Mapping[str, str], *, system: bool) -> str:
    """Return the unit for the daemon of a file, as the environment of whoever asks has it run."""
    user = pwd.getpwuid(os.getuid())
    unit_more, service_more, carried = "", "", [*_CARRIED]
    if system:
        runtime = f"user-runtime-dir@{user.pw_uid}.service"
        unit_more = f"Wants=network-online.target {runtime}\nAfter=network-online.target {runtime}\n"
        service_more, carried = f"User={user.pw_name}\n", [*_CARRIED, _RUNTIME]
    variables = [f"{name}={environ[name]}" for name in carried if environ.get(name)]
    return _SERVICE.format(
        described=_specifiers(config),
        unit_more=unit_more,
        command=" ".join(_word(word) for word in ourselves()),
        config=_word(config),
        folder=_specifiers(os.path.dirname(config)),
        environment="\n".join(f"Environment={_quoted(variable)}" for variable in variables),
        service_more=service_more,
        wanted_by="multi-user.target" if system else "default.target",
    )


def in_a_service(config: str, environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong with a file where nothing is set but what a service has: variables of a shell are not."""
    from longwatch.config.files import load  # noqa: PLC0415 - the model takes its time

    there = {name: environ[name] for name in (*_CARRIED, *_GIVEN) if name in environ}
    try:
        return [str(problem) for problem in load(config, there).errors]
    except UsageError as error:
        return [str(error)]


def ourselves() -> list[str]:
    """Return the command that we are: the installed script, or this interpreter with the package."""
    script = os.path.join(sysconfig.get_path("scripts"), "longwatch")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "longwatch"]


def folder(environ: Mapping[str, str], *, system: bool) -> str:
    """Return where systemd looks for units of the system, or of the user."""
    if system:
        return SYSTEM_FOLDER
    base = environ.get("XDG_CONFIG_HOME", "")
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "systemd", "user")


def next_commands(name: str, *, system: bool) -> list[str]:
    """Return what has to be done for the unit to run, and to go on running; nothing of it is done here."""
    control = "sudo systemctl" if system else "systemctl --user"
    commands = [f"{control} daemon-reload", f"{control} enable --now {name}"]
    # A user's manager, and all that it runs, ends with the last session unless the user lingers.
    return commands if system else [*commands, f"loginctl enable-linger {pwd.getpwuid(os.getuid()).pw_name}"]


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as error:
        how = "; with --system it takes root: longwatch unit --system | sudo tee " + path
        raise OSError(error.errno, f"{error.strerror}{how * path.startswith(SYSTEM_FOLDER)}", path) from error


def _specifiers(text: str) -> str:
    """Return a text in which systemd replaces nothing. Raises UsageError for one that no line can hold."""
    if not text.isprintable():
        raise UsageError(f"{text!r} cannot stand in a unit; rename it")
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    return '"' + _specifiers(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word(text: str) -> str:
    """Return one word of a command line; systemd replaces variables there, too."""
    plain = text.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum()
    return text if plain else _quoted(text).replace("$", "$$")
