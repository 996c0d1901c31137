"""The tests compare what gradline says in English, whatever language the machine speaks."""

from __future__ import annotations

import os

os.environ["GRADLINE_LANG"] = "en"
