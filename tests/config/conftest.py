"""What the tests of the file share."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from longwatch.config.files import Loaded, load

Load = Callable[..., Loaded]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return what reads a text as the longwatch.toml of an empty folder, with the variables that are given."""
    monkeypatch.chdir(tmp_path)

    def loaded(text: str, environ: Mapping[str, str] | None = None) -> Loaded:
        Path("longwatch.toml").write_text(text)
        return load("longwatch.toml", environ or {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})

    return loaded
