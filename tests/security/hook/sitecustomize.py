"""Loaded by Python itself before anything else (`PYTHONPATH`): writes down what a program must not do.

What runs code of the folder $WATCHED, starts a program, or speaks to a network goes into the file $WATCH_LOG.
"""

import os
import sys

WATCHED, LOG = os.environ["WATCHED"], os.environ["WATCH_LOG"]
STARTS = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.spawn",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
}
SPEAKS = {
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "socket.sendmsg",
    "urllib.Request",
    "http.client.connect",
}
busy = False


def hook(event, arguments):
    global busy
    if busy:
        return
    busy = True
    try:
        bad = event in STARTS or event in SPEAKS or event == "webbrowser.open"
        if event == "exec":
            bad = getattr(arguments[0], "co_filename", "").startswith(WATCHED)
        elif event in ("import", "ctypes.dlopen"):
            bad = any(isinstance(one, str) and one.startswith(WATCHED) for one in arguments[:2])
        elif event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
            bad = bool(writes) and str(path).startswith(WATCHED)
        if bad:
            with open(LOG, "a", encoding="utf-8") as file:
                file.write(f"{event} {arguments!r}\n")
    finally:
        busy = False


sys.addaudithook(hook)
