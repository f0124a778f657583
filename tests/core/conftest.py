"""What holds for tests of decisions: no process, no file, no clock, and random scripts that are the same everywhere."""

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "core",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=50,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("core")


@pytest.fixture(autouse=True)
def home() -> None:
    """Need no home: what decides reads no files (the import contracts see to it)."""


@pytest.fixture(autouse=True)
def leak_check() -> None:
    """Look for no processes: what decides starts none."""
