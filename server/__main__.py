"""`python -m gradline`: the same as the command `gradline`."""

import os
import sys

if __name__ == "__main__":
    # Python looks for modules in the current folder first, which here is the project: its `json.py` is none of ours
    try:
        here = os.getcwd()
    except OSError:  # it is gone, as the command will say
        here = ""
    if sys.path and sys.path[0] in ("", here):
        del sys.path[0]
    from .cli import main

    sys.exit(main())
