"""Which file is meant: the named one, the variable's, the nearest one upwards, the user's own."""

import os

from longwatch import paths
from longwatch.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "longwatch.toml"
VARIABLE = "LONGWATCH_CONFIG"


def find(named: str | None, environ: "Mapping[str, str]" = os.environ, cwd: str | None = None) -> str:
    """Return the path of the file to read. Raises UsageError where there is none.

    `named` is what `--config` said. A file that was named has to be there: nothing else is taken in its place.
    """
    here = os.getcwd() if cwd is None else cwd
    told = [("--config ", named), (f"{VARIABLE}=", environ.get(VARIABLE))]
    for who, path in told:
        if path:
            return there(who, os.path.join(here, os.path.expanduser(path)))
    found = _upwards(here) or users_own(environ)
    if not os.path.isfile(found):
        raise UsageError(f"no {NAME} here or above, and no {found}; longwatch init writes a first one")
    return found


def users_own(environ: "Mapping[str, str]" = os.environ) -> str:
    """Return the path of the user's own file; it need not exist."""
    return os.path.join(paths.config(environ), NAME)


def there(who: str, path: str) -> str:
    """Return the path of a file that was named, maybe by its folder; `who` says how. Raises UsageError without it."""
    if os.path.isdir(path):
        path = os.path.join(path, NAME)
    if not os.path.exists(path):
        raise UsageError(f"{who}{path}: no such file; longwatch init writes a first one")
    return path


def _upwards(folder: str) -> str | None:
    while True:
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
