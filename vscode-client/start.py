"""Starts gradline with this extension's packages.  start.py STRATEGY LIBS PACKAGES [ARGUMENTS]

LIBS holds gradline and what it imports, PACKAGES what was installed later for this interpreter alone. With the
strategy `useBundled` they come before what the interpreter's environment has, with `fromEnvironment` after it.
Without ARGUMENTS it is the language server; with them the command `gradline`, which ends when its standard input does:
the editor holds the other end.
"""

import os
import signal
import sys
import threading

strategy, libs, packages = sys.argv[1:4]
del sys.path[0]  # the folder of this script
if strategy == "fromEnvironment":
    sys.path += [libs, packages]
else:
    sys.path[:0] = [libs, packages]


def end_with_the_editor():
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # the command has a handler that ends what it has started


if len(sys.argv) > 4:
    from gradline.cli import main as command

    threading.Thread(target=end_with_the_editor, daemon=True).start()
    sys.exit(command(sys.argv[4:]))

from gradline.lsp import main  # noqa: E402

sys.exit(main())
