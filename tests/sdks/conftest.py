"""These tests need SDKs that the project does not: `make test-sdks` has an environment with them.

Where an SDK is not installed its tests are not even loaded. In that environment a missing one is an error.
"""

import os
from importlib.metadata import PackageNotFoundError, version

# By distribution: a module of tests has the name of one of them.
SDKS = {
    "test_claude.py": "claude-agent-sdk",
    "test_openai_agents.py": "openai-agents",
    "test_pydantic_ai.py": "pydantic-ai-slim",
    "test_langgraph.py": "langgraph",
    "test_acp.py": "agent-client-protocol",
    "test_tutorial.py": "pydantic-ai-slim",
}


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


collect_ignore = [
    name for name, sdk in SDKS.items() if "LONGWATCH_SDKS" not in os.environ and not _installed(sdk)
]
