"""`python -m gradline`: the same as the command `gradline`."""

import sys

from .cli import main

sys.exit(main())
