"""Starts the server with this extension's packages.  start.py STRATEGY LIBS PACKAGES

LIBS holds gradline and what it imports, PACKAGES what was installed later for this interpreter alone. With the
strategy `useBundled` they come before what the interpreter's environment has, with `fromEnvironment` after it.
"""

import sys

strategy, libs, packages = sys.argv[1:4]
del sys.path[0]  # the folder of this script
if strategy == "fromEnvironment":
    sys.path += [libs, packages]
else:
    sys.path[:0] = [libs, packages]

from gradline.lsp import main  # noqa: E402

sys.exit(main())
