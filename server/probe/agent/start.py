"""The file that Python is given: loads this folder as `_gradline_probe` and does what the first argument names.

    python start.py supervise CONFIG    watch over the program that CONFIG (JSON) describes
    python start.py enter CONFIG        isolate this process, then become the program's process
    python start.py run CONFIG          run the program in this process, observed
    python start.py guard GROUP TOKEN SCRATCH   wait for the end of stdin, then end the group

The program must be `__main__`, so none of our code may stay there: torch.compile, pickle and others look a function's
globals up by module name.
"""

import importlib.util
import os
import sys

NAME = "_gradline_probe"


def load() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)


def main() -> int:
    if os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    load()
    import json

    role = sys.argv[1]
    if role == "guard":
        supervisor = importlib.import_module(f"{NAME}.supervisor")

        return supervisor.guard(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    with open(sys.argv[2], encoding="utf-8") as file:
        options = json.load(file)
    if role == "run":
        os.environ.pop(
            "GRADLINE_PROBE_ROLE", None
        )  # the processes that the program starts are observed from sitecustomize
        program = importlib.import_module(f"{NAME}.program")

        return program.main(options)
    if role == "enter":
        isolate = importlib.import_module(f"{NAME}.isolate")

        return isolate.enter(options, sys.argv[2])
    supervisor = importlib.import_module(f"{NAME}.supervisor")

    return supervisor.main(options, sys.argv[2])


if __name__ == "__main__":
    sys.exit(main())
