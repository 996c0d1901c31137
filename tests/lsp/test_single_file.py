"""A file that is opened outside of every folder of the workspace is followed into the files beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .client import REAL, Client
from .test_real import CAPABILITIES, MIDNIGHT


@pytest.mark.parametrize("workspace", [True, False])
def test_the_origin_in_an_import_is_found(tmp_path: Path, workspace: bool) -> None:
    shutil.copytree(MIDNIGHT, tmp_path / "alone", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "other").mkdir()
    train = tmp_path / "alone" / "train.py"
    with Client(REAL, tmp_path / "other" if workspace else None, **CAPABILITIES) as client:
        client.open(train.as_uri(), train.read_text())
        found = client.wait(lambda m: "GL202" in str(m) and m["params"]["uri"] == train.as_uri())
        (victim,) = found["params"]["diagnostics"]
        assert victim["relatedInformation"][-1]["location"]["uri"].endswith("/utils/data_loader.py")
        # files that are neither open nor in the workspace are read, not reported
        assert not any("data_loader" in (m.get("params") or {}).get("uri", "") for m in client.seen)
