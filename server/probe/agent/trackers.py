"""Experiment trackers stay offline, whatever the program tells them: settings, and arguments that would override them."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any

from . import arrive
from .run import Run


def settings(folder: str) -> dict[str, str]:
    """Environment that keeps trackers from sending anything; what they write goes to `folder`."""
    return {
        "WANDB_MODE": "disabled",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_DIR": folder,
        "MLFLOW_TRACKING_URI": _store(folder),
        "MLFLOW_ALLOW_FILE_STORE": "true",  # newer ones refuse folders otherwise, and a database needs more packages
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "COMET_START_ONLINE": "false",
        "COMET_ERROR_TRACKING_ENABLE": "false",
        "COMET_OFFLINE_DIRECTORY": folder,
        "NEPTUNE_MODE": "debug",
        "CLEARML_OFFLINE_MODE": "1",
        "SWANLAB_MODE": "disabled",
        "TRACKIO_DIR": os.path.join(folder, "trackio"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
    }


def _store(folder: str) -> str:
    return "file:" + os.path.join(folder, "mlruns")


def keep_offline(run: Run, folder: str) -> None:
    """When the program imports a tracker, replace what in its interface wins over the environment."""
    for name, patch in (("wandb", _wandb), ("comet_ml", _comet), ("mlflow", _mlflow), ("neptune", _neptune),
                        ("swanlab", _swanlab)):  # fmt: skip
        arrive.when_imported(name, functools.partial(_patched, run, name, patch, folder))


def _patched(run: Run, name: str, patch: Any, folder: str) -> None:
    run.safely(patch, run, sys.modules[name], folder)


def _force(run: Run, owner: Any, name: str, **fixed: Any) -> None:
    """Whatever `owner.name` is called with, these arguments are ours."""
    original = getattr(owner, name, None)
    if original is None:
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def forced(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which says itself what is wrong
        given = {key: bound.arguments.get(key) for key in fixed}
        if any(value not in (None, False, fixed[key]) for key, value in given.items()):
            run.note(f"{getattr(owner, '__name__', owner)}.{name} was kept offline: {given} became {fixed}")
        bound.arguments.update(fixed)
        return original(*bound.args, **bound.kwargs)

    setattr(owner, name, forced)


def _wandb(run: Run, module: Any, folder: str) -> None:
    _force(run, module, "init", mode="disabled")


def _comet(run: Run, module: Any, folder: str) -> None:
    _force(run, module, "start", online=False)
    for name in ("Experiment", "ExistingExperiment", "OfflineExperiment", "ExistingOfflineExperiment"):
        _force(run, getattr(module, name, None), "__init__", disabled=True)


def _mlflow(run: Run, module: Any, folder: str) -> None:
    def local(uri: Any) -> Any:
        if not str(uri or "").startswith(("http", "databricks")):
            return uri
        run.note(f"mlflow was kept offline: {uri} became a folder that is thrown away")
        return _store(folder)

    for owner in (module, getattr(module, "tracking", None)):
        original = getattr(owner, "set_tracking_uri", None)
        if owner is not None and original is not None:
            owner.set_tracking_uri = functools.wraps(original)(lambda uri, o=original: o(local(uri)))
    client = module.MlflowClient
    made = client.__init__

    @functools.wraps(made)
    def __init__(self: Any, tracking_uri: Any = None, *args: Any, **kwargs: Any) -> None:
        made(self, local(tracking_uri), *args, **kwargs)

    client.__init__ = __init__


def _neptune(run: Run, module: Any, folder: str) -> None:
    for name in ("init_run", "init_model", "init_model_version", "init_project"):
        _force(run, module, name, mode="debug")


def _swanlab(run: Run, module: Any, folder: str) -> None:
    _force(run, module, "init", mode="disabled")
