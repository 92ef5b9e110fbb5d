"""The product's own settings on a data directory that lives as long as the tests.

The directory must be chosen here, before Django reads its settings: in a conftest it is too late, and the tests would
use the users and the key of the developer's own data directory.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_directory = tempfile.mkdtemp(prefix="penstock-tests-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
for _name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
    del os.environ[_name]
os.environ["PENSTOCK_DATA_PATH"] = _directory

from admin_console.settings import *  # noqa: E402, F403
from admin_console.settings import DATABASES  # noqa: E402

# A file, so that other threads see it as they do in the product.
DATABASES["default"]["TEST"] = {"NAME": Path(_directory) / "test.sqlite3"}
