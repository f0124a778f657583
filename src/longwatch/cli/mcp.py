"""`longwatch mcp`: a tool server for agents, over stdin and stdout. The limits are the flags of whoever registers it."""

import os
from typing import Any

import click

from longwatch.cli.machine import install_command
from longwatch.cli.main import fill_standard_descriptors, from_file, leave_by, say
from longwatch.cli.table import table_options
from longwatch.errors import UsageError
from longwatch.options import of_flags
from longwatch.tool.roots import Roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


@click.command(short_help="Serve a tool for agents that runs commands under your limits.")
@table_options("mcp")
def command(**given: Any) -> None:
    """Serve the tool `run_command` to an agent, as an MCP server on stdin and stdout.

    The agent says what to run, where and with which input. How long it may take is said here, or by
    LONGWATCH_TOOL_TIMEOUT and its like, and nowhere else. When the agent goes away every command is stopped with all
    that it started. Exit status: 0 when the agent hung up, by the signal when one ended us.
    """
    values = of_flags("mcp", given, read=from_file)
    roots = Roots(values.root)
    server = _server()
    fill_standard_descriptors()
    if os.isatty(0):
        say("mcp: speaks MCP on stdin and stdout, for agents; Ctrl-D ends it")
    rules = server.Rules(values.timeout, values.idle, values.kill_after, server.MAX_BYTES)
    signum = server.run(roots, rules)
    if signum is not None:
        leave_by(signum)


def _server() -> "ModuleType":
    """Load the server, and with it the package that only this verb needs."""
    try:
        from longwatch.tool import server  # noqa: PLC0415
    except ImportError as error:
        if (error.name or "").startswith("longwatch"):
            raise
        raise UsageError(
            f"mcp needs the package mcp, version 2; install it with: {install_command('longwatch[all]')}"
        ) from error
    return server
