"""`[notify]`: what is told to whom, and keys that would tell nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from longwatch.config.problems import Report

_CHANNELS = ("hook", "urls")
_OF_CHANNELS = ("events", "cooldown", "timeout")


def settings(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was told in the form that travels."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}


def check(raw: object, told: Mapping[str, Any], report: Report) -> None:
    """Refuse what would tell nobody."""
    given = raw if isinstance(raw, Mapping) else {}
    if not any(key in given for key in _CHANNELS):
        for key in _OF_CHANNELS:
            if key in given:
                report.error(
                    ("notify", key),
                    f'[notify] {key}: nobody is told; add hook = ["/..."] or urls = ["${{NAME}}"]',
                )
    if "dead_man_every" in given and "dead_man" not in given:
        report.error(
            ("notify", "dead_man_every"),
            '[notify] dead_man_every: nothing is asked for; add dead_man = "https://..."',
        )
    if told.get("urls") and find_spec("apprise") is None:
        report.error(
            ("notify", "urls"), "[notify] urls: these need the package apprise; install longwatch[all]"
        )
    _in_the_open(given, report)
    hook = told.get("hook")
    if hook and not os.access(hook[0], os.X_OK):
        report.warn(("notify", "hook"), f"[notify] hook: {hook[0]}: no such program now")


def _in_the_open(given: Mapping[str, Any], report: Report) -> None:
    urls = given.get("urls", ())
    for url in [urls] if isinstance(urls, str) else urls if isinstance(urls, list) else ():
        if isinstance(url, str) and "${" not in url:
            report.warn(
                ("notify", "urls"),
                '[notify] urls: such an address is a secret; write "${NAME}", and NAME=... into env_file',
            )
            return
