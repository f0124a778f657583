"""`[web]` as the API process wants it, and what must not be open to everybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from longwatch.config.problems import Report
from longwatch.core.harness import Harness

_HERE = ("127.", "localhost:", "[::1]:")
_HOOK = ("verify", "secret", "header", "max_body", "rate")
_PROOF = ("verify", "secret", "header")
#: What nobody guesses in a lifetime.
_SHORTEST_TOKEN = 16


def settings(told: Mapping[str, Any], harnesses: Sequence[Harness]) -> dict[str, Any]:
    """Return where the API listens beside its socket, its token, and the webhooks there are."""
    allow = bool(told.get("allow_remote"))
    hooks = [
        {
            "harness": harness.name,
            "trigger": trigger["name"],
            **{k: trigger[k] for k in _HOOK if k in trigger},
        }
        for harness in harnesses
        for trigger in harness.triggers
        if trigger["kind"] == "webhook"
    ]
    return {
        "listen": told.get("listen"),
        "token": told.get("token"),
        "allow": allow,
        "origins": list(told.get("origins", ())),
        "hooks": {"listen": told.get("webhooks"), "allow": allow, "triggers": hooks},
    }


def check(raw: object, told: Mapping[str, Any], report: Report) -> None:
    """Refuse doors that are open to everybody, and keys without one."""
    given = raw if isinstance(raw, Mapping) else {}
    if "listen" in given and not {"token", "token_file"} & given.keys():
        report.error(
            ("web", "listen"), '[web] listen: needs a token; add token_file = "..." or token = "${NAME}"'
        )
    if {"token", "token_file"} <= given.keys():
        report.error(("web", "token"), "[web] token: token_file holds one already; keep one of them")
    for key in ("token", "token_file", "origins"):
        if key in given and "listen" not in given:
            report.error(("web", key), f'[web] {key}: nothing listens; add listen = "127.0.0.1:7077"')
    doors = [key for key in ("listen", "webhooks") if key in given]
    if "allow_remote" in given and not doors:
        report.error(
            ("web", "allow_remote"), '[web] allow_remote: nothing listens; add listen = "0.0.0.0:7077"'
        )
    for key in doors:
        if key in told and not told[key].startswith(_HERE) and given.get("allow_remote") is not True:
            text = (
                f"[web] {key} = {told[key]}: open to other machines; add allow_remote = true if that is meant"
            )
            report.error(("web", key), text)


def token(path: str, report: Report) -> str | None:
    """Return the token in a file; None where there is none."""
    place = ("web", "token_file")
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
        report.error(place, f"[web] token_file = {path}: {why}")
        return None
    if mode & 0o077:
        report.warn(place, f"[web] token_file: others can read {path} (mode {mode:04o}); chmod 600 {path}")
    if len(found) < _SHORTEST_TOKEN or len(found.split()) > 1:
        report.error(
            place, f"[web] token_file = {path}: no token of {_SHORTEST_TOKEN} characters or more in it"
        )
        return None
    return found


def check_triggers(harness: str, raw: object, report: Report, *, listening: bool) -> None:
    """Refuse webhooks that anybody could send, and proofs that nobody asks for."""
    names: set[object] = set()
    for number, trigger in enumerate(raw if isinstance(raw, list) else ()):
        if not isinstance(trigger, Mapping):
            continue
        path = ("harness", harness, "trigger", number)
        head = f"[[harness.{harness}.trigger]]"
        if trigger.get("name") in names:
            report.error((*path, "name"), f"{head} name = {trigger['name']}: there is one of that name")
        names.add(trigger.get("name"))
        if trigger.get("kind") == "channel":
            for key in _PROOF:
                if key in trigger:
                    report.error((*path, key), f"{head} {key}: only webhooks prove where they come from")
            continue
        missing = [key for key in ("verify", "secret") if key not in trigger]
        if missing:
            offer = {"verify": 'verify = "github"', "secret": 'secret = "${NAME}"'}
            words = " and ".join(offer[key] for key in missing)
            report.error(path, f"{head}: anybody could send it; add {words}")
        if not listening:
            report.error(path, f'{head}: no address for webhooks; add webhooks = "127.0.0.1:7078" to [web]')
