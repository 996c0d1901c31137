"""Run programs under the agent, each in a fork of one process that has torch loaded: what takes seconds takes a tenth.

    python forked.py AGENT    reads jobs from stdin, a JSON object a line; answers each with the exit status, in a line

A job has `folder` (the program's), `options` (what the supervisor would hand to the agent) and `said` (a file for the
program's output). The supervisor and the isolation are not in it: the tests that need them start the real command.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys


def main(agent: str) -> None:
    spec = importlib.util.spec_from_file_location("_gradline_start", os.path.join(agent, "start.py"))
    assert spec is not None and spec.loader is not None
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    start.load()
    program = importlib.import_module("_gradline_probe.program")
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)  # loads what the first optimizer loads: much
    torch.set_num_threads(1)  # a pool of threads would not live on in the fork
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != os.path.dirname(__file__)]
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            null = os.open(os.devnull, os.O_RDONLY)
            for target, source in ((0, null), (1, said), (2, said)):
                os.dup2(source, target)
            os.chdir(job["folder"])
            program.main(job["options"])
            os._exit(70)
        print(json.dumps(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
