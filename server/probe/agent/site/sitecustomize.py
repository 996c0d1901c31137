"""Python imports this at its start in every process below a probed command; the user's own one is run afterwards."""

import os
import sys


def _observe(folder):
    import importlib.util
    import json

    path = os.path.join(os.path.dirname(folder), "start.py")
    spec = importlib.util.spec_from_file_location("_gradline_start", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load()
    program = importlib.import_module("_gradline_probe.program")

    with open(os.environ["GRADLINE_PROBE_CONFIG"], encoding="utf-8") as file:
        program.start_in_place(json.load(file))


def _users(folder):
    from importlib import machinery, util

    spec = machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None and spec.origin != os.path.join(folder, "sitecustomize.py"):
        module = util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _folder]
if os.environ.get("GRADLINE_PROBE_CONFIG") and not os.environ.get("GRADLINE_PROBE_ROLE"):
    try:
        _observe(_folder)
    except Exception as error:
        sys.stderr.write(f"gradline probe: this process is not observed: {error!r}\n")
try:
    _users(_folder)
except Exception as error:
    sys.stderr.write(f"gradline probe: the user's own sitecustomize failed: {error!r}\n")
