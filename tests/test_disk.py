"""Which files are found, what becomes of those that can't be read, and where imports are looked for."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gradline.config import Configuration
from gradline.disk import Disk, normal, root_above, sites_of


def tree(root: Path, *names: str, **texts: str) -> str:
    """Makes files (empty, or with these texts; a name that ends in `/` is a folder); returns the root as shown."""
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    return root.as_posix()


def found(root: str, *paths: str, **options) -> list[str]:
    disk = Disk([root])
    return [path.removeprefix(root + "/") for path in disk.discover(paths or [root], **options)]


def test_python_and_notebooks_and_nothing_else(tmp_path):
    root = tree(tmp_path, "a.py", "b/c.py", "n.ipynb", "stub.pyi", "x.txt", "b/.hidden.py", ".github/d.py")
    assert found(root) == [".github/d.py", "a.py", "b/.hidden.py", "b/c.py", "n.ipynb"]


def test_default_excludes(tmp_path):
    root = tree(tmp_path, "a.py", *(f"{name}/x.py" for name in ("build", "dist", ".venv", "venv", "node_modules")))
    tree(tmp_path, "deep/.git/x.py", "deep/site-packages/x.py", "deep/__pypackages__/x.py", "built/x.py")
    tree(tmp_path, "myenv/pyvenv.cfg", "myenv/lib/x.py")
    assert found(root) == ["a.py", "built/x.py"]


def test_what_is_named_is_checked(tmp_path):
    root = tree(tmp_path, "build/x.py", "script", "a.py")
    assert found(root, f"{root}/build/x.py", f"{root}/script", f"{root}/a.py", root) == ["a.py", "build/x.py", "script"]
    assert found(root, f"{root}/build") == ["build/x.py"]
    assert found(root, f"{root}/build/x.py", force_exclude=True) == []


def test_settings_choose_files(tmp_path):
    root = tree(tmp_path, "a.py", "old/b.py", "gen/x_pb2.py", "build/c.py", "sub/d.py", "sub/e.py")
    (tmp_path / "gradline.toml").write_text('exclude = ["/old"]\nextend-exclude = ["*_pb2.py"]\n')
    (tmp_path / "sub" / "gradline.toml").write_text('include = ["d.*"]\n')
    assert found(root) == ["a.py", "build/c.py", "sub/d.py"]


GITIGNORE = {
    ".gitignore": "ignored.py\n/only_here.py\nlogs/\n*.gen.py\n!keep.gen.py\n**/cache/**\n\\#odd.py\ntrailing.py \n",
    "sub/.gitignore": "!ignored.py\nlocal.py\n",
}
GIT_NAMES = [
    "a.py", "ignored.py", "only_here.py", "logs/l.py", "x.gen.py", "keep.gen.py", "p/cache/c.py", "#odd.py", "trailing.py",
    "sub/ignored.py", "sub/local.py", "sub/only_here.py", "sub/deep/local.py", "sub/deep/ignored.py", "sub/logs/x.py",
    "excluded.py",
]  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    root = tree(tmp_path, ".git/info/", *GIT_NAMES)
    for name, text in GITIGNORE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".git" / "info" / "exclude").write_text("excluded.py\n")
    return root


def test_gitignore_is_read_as_git_does(repository):
    expected = ["a.py", "keep.gen.py", "sub/deep/ignored.py", "sub/ignored.py", "sub/only_here.py"]
    assert found(repository) == expected
    assert found(repository, f"{repository}/sub/deep") == ["sub/deep/ignored.py"]
    assert found(repository, f"{repository}/logs") == ["logs/l.py"]


def test_git_agrees(repository, tmp_path):
    git = ["git", "-c", "core.excludesFile=", "-C", repository]
    (tmp_path / ".git" / "info" / "exclude").unlink()
    try:
        subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git")
    (tmp_path / ".git" / "info" / "exclude").write_text("excluded.py\n")
    listed = subprocess.run(
        [*git, "-c", "core.quotePath=off", "ls-files", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found(repository) == sorted(name for name in listed.stdout.splitlines() if name.endswith(".py"))


def test_gitignore_can_be_left_alone(repository, tmp_path):
    (tmp_path / "gradline.toml").write_text("respect-gitignore = false\n")
    assert len(found(repository)) == len(GIT_NAMES)


def test_ignore_file(tmp_path):
    root = tree(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / ".ignore").write_text("!a.py\nb.py\n")
    assert found(root) == ["a.py"]


def test_links(tmp_path):
    root = tree(tmp_path / "p", "a/x.py")
    outside = tree(tmp_path / "data", "y.py")
    try:
        os.symlink("..", f"{root}/a/up")
        os.symlink(outside, f"{root}/data")
        os.symlink(f"{outside}/y.py", f"{root}/linked.py")
        os.symlink(f"{root}/self.py", f"{root}/self.py")
        os.symlink("nowhere.py", f"{root}/dead.py")
    except OSError:
        pytest.skip("needs symbolic links")
    assert found(root) == ["a/x.py", "linked.py"]
    assert found(root, f"{root}/data") == ["data/y.py"]
    disk = Disk([root])
    assert disk.discover([f"{root}/dead.py"]) == []
    assert disk.problems[0].message == "is a link that leads nowhere"
    assert not disk.is_file(f"{root}/self.py")


def test_what_is_not_there(tmp_path):
    disk = Disk([tmp_path.as_posix()])
    assert disk.discover([f"{tmp_path.as_posix()}/gone.py"]) == []
    (problem,) = disk.problems
    assert (problem.message, problem.fatal) == ("does not exist", True)


# Reading


def read(tmp_path: Path, data: bytes, name: str = "a.py"):
    path = (tmp_path / name).as_posix()
    (tmp_path / name).write_bytes(data)
    disk = Disk([tmp_path.as_posix()])
    disk.discover([path])
    source = disk.read(path)
    return source.text if source else disk.problems[0]


def test_texts(tmp_path):
    assert read(tmp_path, b"x = 1\r\ny = 2\r") == "x = 1\r\ny = 2\r"
    assert read(tmp_path, b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    assert read(tmp_path, b"# coding: latin-1\n# caf\xe9\n") == "# coding: latin-1\n# café\n"
    assert read(tmp_path, b"") == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\n# caf\xe9\n", "can't be decoded: line 2"),
        (b"\xff\xfex\x00", "can't be decoded: the file is UTF-16"),
        (b"# coding: klingon\n", "can't be decoded: unknown encoding 'klingon'"),
    ],
)
def test_undecodable(tmp_path, data, message):
    problem = read(tmp_path, data)
    assert problem.message.startswith(message)
    assert problem.fatal


def test_what_a_dependency_holds_is_no_failure(tmp_path):
    (tmp_path / "dep.py").write_bytes(b"\xe9")
    disk = Disk([tmp_path.as_posix()])
    assert disk.read(f"{tmp_path.as_posix()}/dep.py") is None
    assert not disk.problems[0].fatal


def test_a_file_that_vanishes(tmp_path):
    root = tree(tmp_path, "a.py")
    disk = Disk([root])
    (path,) = disk.discover([root])
    os.unlink(path)
    assert disk.read(path) is None
    assert [(problem.message, problem.fatal) for problem in disk.problems] == [("vanished before it was read", False)]


def denied(*_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_file_without_rights(tmp_path, monkeypatch):
    root = tree(tmp_path, "a.py")
    disk = Disk([root])
    (path,) = disk.discover([root])
    monkeypatch.setattr("builtins.open", denied)
    assert disk.read(path) is None
    assert [problem.message for problem in disk.problems] == ["can't be read: permission denied"]


def test_a_folder_without_rights(tmp_path, monkeypatch):
    root = tree(tmp_path, "a.py", "closed/b.py")
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: denied() if str(path).endswith("closed") else scandir(path))
    disk = Disk([root])
    assert disk.discover([root]) == [f"{root}/a.py"]
    assert [(p.path, p.message) for p in disk.problems] == [(f"{root}/closed", "can't be listed: permission denied")]


def test_a_folder_is_no_file(tmp_path):
    root = tree(tmp_path, "a.py/")
    assert Disk([root]).read(f"{root}/a.py") is None


# Imports


def roots(disk: Disk, path: str, base: str) -> list[str]:
    return [
        folder.removeprefix(base + "/") if folder != base else "."
        for folder in disk.search_path(f"{base}/{path}")
        if f"{folder}/".startswith(f"{base}/")
    ]


def test_search_path_of_scripts_and_packages(tmp_path):
    root = tree(
        tmp_path, "pyproject.toml", "train.py", "models/net.py", "src/pkg/__init__.py", "src/pkg/sub/__init__.py",
        "src/pkg/sub/m.py", "tools/lone/run.py", "python/",
    )  # fmt: skip
    (tmp_path / "gradline.toml").write_text('src = ["python"]\n')
    disk = Disk([root], environ={})
    assert roots(disk, "train.py", root) == [".", "src", "python"]
    assert roots(disk, "models/net.py", root) == ["models", ".", "src", "python"]
    assert roots(disk, "src/pkg/sub/m.py", root) == ["src", ".", "python", "src/pkg/sub"]
    assert roots(disk, "tools/lone/run.py", root) == ["tools/lone", "tools", ".", "src", "python"]


def test_the_project_around_a_folder(tmp_path):
    root = tree(tmp_path, "p/setup.py", "p/pkg/__init__.py", "p/pkg/sub/__init__.py", "q/pkg/__init__.py", "q/pkg/a/b/")
    assert root_above(f"{root}/p/pkg/sub") == f"{root}/p"
    assert root_above(f"{root}/p") == f"{root}/p"
    assert root_above(f"{root}/q/pkg") == f"{root}/q"
    assert root_above(f"{root}/q/pkg/a/b") == f"{root}/q/pkg/a/b"


def environment(root: Path, name: str = ".venv") -> str:
    site = root / name / ("Lib" if sys.platform == "win32" else "lib/python3.12") / "site-packages"
    site.mkdir(parents=True)
    (root / name / "pyvenv.cfg").write_text("home = /nowhere/bin\ninclude-system-site-packages = false\n")
    return site.as_posix()


def test_environments(tmp_path):
    root = tree(tmp_path / "p", "pyproject.toml", "a.py", "editable/", "sub/b.py")
    site = environment(tmp_path / "p")
    other = environment(tmp_path / "other", "conda")
    third = environment(tmp_path / "third", "v")
    Path(site, "e.pth").write_text(f"# comment\nimport os\n{root}/editable\nnot/there\n\n")
    plain = {"VIRTUAL_ENV": "", "CONDA_PREFIX": f"{tmp_path.as_posix()}/other/conda"}
    assert Disk([root], environ=plain).search_path(f"{root}/sub/b.py")[-2:] == [site, f"{root}/editable"]
    active = plain | {"VIRTUAL_ENV": f"{tmp_path.as_posix()}/third/v"}
    assert Disk([root], environ=active).search_path(f"{root}/a.py")[-1] == third
    bare = tree(tmp_path / "bare", "a.py")
    assert Disk([bare], environ=plain).search_path(f"{bare}/a.py")[-1] == other
    (tmp_path / "p" / "gradline.toml").write_text('environment = "../other/conda"\n')
    disk = Disk([root], Configuration(), environ=active)
    assert disk.search_path(f"{root}/a.py")[-1] == other
    assert disk.is_project(f"{root}/a.py")
    assert not disk.is_project(f"{site}/x.py")
    assert not disk.is_project(f"{other}/x.py")


def test_an_interpreter_names_its_environment(tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=sys.platform != "win32")
    folder = (tmp_path / "v").as_posix()
    python = f"{folder}/Scripts/python.exe" if sys.platform == "win32" else f"{folder}/bin/python"
    assert sites_of(python) == sites_of(folder) != []
    assert sites_of(f"{tmp_path.as_posix()}/gone") == []


def test_an_environment_that_is_none_is_said(tmp_path):
    root = tree(tmp_path, "a.py")
    (tmp_path / "gradline.toml").write_text('environment = "gone"\n')
    disk = Disk([root])
    disk.search_path(f"{root}/a.py")
    assert disk.problems[0].message == "is no Python environment (setting `environment`)"


def test_listings_are_remembered_until_forgotten(tmp_path):
    root = tree(tmp_path, "a.py")
    disk = Disk([root])
    assert disk.is_file(f"{root}/a.py") and not disk.is_file(f"{root}/b.py") and disk.is_dir(root)
    tree(tmp_path, "b.py")
    assert not disk.is_file(f"{root}/b.py")
    disk.forget()
    assert disk.is_file(f"{root}/b.py")


def test_normal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert normal("a/../b.py") == f"{Path.cwd().as_posix()}/b.py"
    assert normal("~/x.py") == f"{Path.home().as_posix()}/x.py"
