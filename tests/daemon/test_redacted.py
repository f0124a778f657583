"""A secret that a program tells the whole world: what a daemon keeps and says of that has none of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

pytestmark = pytest.mark.long

TOKEN = "tok-5f2b9c7a1e8d4b60"
FROM_ENVIRONMENT = "ghp-0123456789abcdef"
KEY = "key-of-the-line-cut-in-two"


@pytest.mark.capability("CAP-132")
@pytest.mark.fault("O4")
def test_no_sink_has_the_secret(home: Path) -> None:
    """In its command line, its output, its last words: nothing in the logs, the ledger, the reports, the notice."""
    state, told = Path(os.environ["XDG_STATE_HOME"]), home / "told"
    (home / "secrets.env").write_text(f"MY_TOKEN={TOKEN}\nOTHER={KEY}\n")
    chatty = "; ".join(
        [
            f"echo token {TOKEN} and {FROM_ENVIRONMENT}",
            f"printf %s {KEY[:9]}", "sleep 0.3", f"echo {KEY[9:]} >&1", f"echo error: bad token {TOKEN} >&2",
            "sleep 60",
        ]
    )  # fmt: skip
    hook = home / "hook"
    hook.write_text(f"#!/bin/sh\ncat >>{told}\nenv >>{told}\n")
    hook.chmod(0o755)
    config = home / "longwatch.toml"
    config.write_text(
        f"[notify]\nhook = [{json.dumps(str(hook))}]\n[harness.leaky]\n"
        f"command = ['sh', '-c', {json.dumps(chatty)}, 'sh', '--token={TOKEN}']\ncwd = {json.dumps(str(home))}\n"
        "env_file = 'secrets.env'\nidle = '800ms'\nintensity = 1\nrecord_args = true\n"
    )
    config.chmod(0o600)
    env = {**os.environ, "GITHUB_TOKEN": FROM_ENVIRONMENT}
    words = [sys.executable, "-m", "longwatch.daemon", "--config", str(config), "--foreground"]
    with open(home / "log", "wb") as log:
        daemon = subprocess.Popen(words, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            helpers.wait_until(
                lambda: told.exists() and "gave_up" in told.read_text(), 40, "a notice of its end"
            )
        finally:
            daemon.send_signal(signal.SIGINT)
            daemon.wait(30)
    files = [path for path in (*state.rglob("*"), home / "log") if path.is_file()]
    names = {path.name for path in files}
    assert {"ledger.sqlite3", "leaky.log", "report.json", "log.jsonl", "meta.json"} <= names
    leaks = [
        (str(path), secret)
        for path in files
        for secret in (TOKEN, FROM_ENVIRONMENT, KEY)
        if secret.encode() in path.read_bytes()
    ]
    assert leaks == []
    # Not even in what the notice's own program was given beside it.
    assert not any(secret in told.read_text() for secret in (TOKEN, KEY))
    notices = [line for line in told.read_text().splitlines() if line.startswith("{")]
    assert not any(secret in line for line in notices for secret in (TOKEN, FROM_ENVIRONMENT, KEY))
    written = next(path for path in files if path.name == "leaky.log").read_text()
    assert "token [redacted] and [redacted]" in written
    assert "error: bad token [redacted]" in written
