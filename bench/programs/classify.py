"""Count the kinds of the records in a transcript: `classify.py longwatch|exact|json FILE`.

Prints one line of JSON: the counts, the milliseconds, and by how many KiB the process grew meanwhile.
"""

import json
import os
import resource
import sys
import time
from collections import Counter


def by_longwatch(path, exact):
    from longwatch.observe.dialects.claude import DIALECT
    from longwatch.observe.dialects.glance import Glance
    from longwatch.observe.lines import runs

    kinds = (
        Glance(lambda line: sys.exit(f"unknown: {line[:200]}"), exact=True).kinds if exact else DIALECT.kinds
    )

    def count():
        descriptor = os.open(path, os.O_RDONLY)
        found = Counter()
        for run in runs(descriptor):
            found.update(kinds(run))
        os.close(descriptor)
        return found

    return count


def by_json(path):
    def kind(record):
        message, who = record.get("message"), record.get("type")
        if who not in ("assistant", "user") or message is None:
            return "retry" if record.get("subtype") in ("api_error", "api_retry") else ""
        content = message["content"]
        if isinstance(content, str):
            return "turn_start" if who == "user" else "text"
        block = content[0]
        if who == "user":
            return (
                ("tool_failed" if block.get("is_error") else "tool_result")
                if block["type"] == "tool_result"
                else "turn_start"
            )
        return {"tool_use": "tool_call"}.get(block["type"], block["type"])

    def count():
        with open(path, "rb") as file:
            return Counter(kind(json.loads(line)) for line in file)

    return count


def main():
    way, path = sys.argv[1:]
    count = by_json(path) if way == "json" else by_longwatch(path, way == "exact")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = count()
    took = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"counts": dict(sorted(found.items())), "ms": took * 1e3, "grown": grown}))


main()
