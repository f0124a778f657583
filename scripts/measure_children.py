"""Let every Python of this virtual environment run the file that COVER_LONGWATCH names, if it names one.

`make venv` calls it. See tests/measure.py for what that file does.
"""

import sysconfig
from pathlib import Path

LINE = (
    "import os; os.environ.get('COVER_LONGWATCH') and "
    "exec(open(os.environ['COVER_LONGWATCH']).read(), {'__name__': 'measured'})\n"
)

(Path(sysconfig.get_path("purelib")) / "cover_longwatch.pth").write_text(LINE)
