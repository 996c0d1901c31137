"""Settings: which file holds, what the settings mean, and that mistakes are said precisely."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gradline.config import KEYS, ConfigError, Configuration, Overrides, Settings, catalog, find_rule, selector_of
from gradline.findings import Severity

# the rules of one family, whatever they are: codes come and go, the settings mean the same
FAMILY = {code for code in catalog() if code.startswith("GL1")}


def put(folder: Path, text: str, name: str = "pyproject.toml") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder.as_posix()


def severity(settings: Settings, word: str, path: str | None = None) -> Severity | None:
    rule = find_rule(word)
    assert rule is not None
    return settings.severity_of(rule, path)


def test_every_key_is_a_setting():
    names = {field.name for field in dataclasses.fields(Settings)}
    assert {key.replace("-", "_") for key in KEYS} - {"extend"} <= names


def test_without_a_file_every_rule_is_on(tmp_path):
    settings = Configuration(isolated=True).for_folder(tmp_path.as_posix())
    assert [rule.code for rule in settings.enabled()] == list(catalog())
    assert severity(settings, "GL102") is Severity.ERROR


def test_the_nearest_file_holds_alone(tmp_path):
    put(tmp_path, '[tool.gradline]\nignore = ["GL101"]\n')
    inner = put(tmp_path / "a", '[tool.gradline]\nignore = ["GL102"]\n')
    below = put(tmp_path / "a" / "b", '[project]\nname = "x"\n')
    configuration = Configuration()
    assert configuration.for_folder(below).file == f"{inner}/pyproject.toml"
    settings = configuration.for_folder(below)
    assert (severity(settings, "GL101"), severity(settings, "GL102")) == (Severity.ERROR, None)
    assert severity(configuration.for_folder(tmp_path.as_posix()), "GL101") is None


def test_gradline_toml_goes_before_pyproject(tmp_path):
    put(tmp_path, '[tool.gradline]\nignore = ["GL101"]\n')
    root = put(tmp_path, 'ignore = ["GL102"]\n', "gradline.toml")
    assert Configuration().for_folder(root).ignore == ("GL102",)


def test_extend(tmp_path):
    put(tmp_path, 'ignore = ["GL101"]\nsrc = ["lib"]\n', "base.toml")
    inner = put(tmp_path / "a", 'extend = "../base.toml"\nextend-select = ["GL203"]\n', "gradline.toml")
    settings = Configuration().for_folder(inner)
    assert settings.ignore == ("GL101",)
    assert settings.extend_select == ("GL203",)
    assert settings.root == inner
    assert settings.src == (f"{tmp_path.as_posix()}/lib",)


def test_a_file_given_by_name_holds_everywhere(tmp_path):
    put(tmp_path, '[tool.gradline]\nselect = ["GL101"]\n')
    put(tmp_path / "other", 'select = ["GL102"]\n', "some.toml")
    configuration = Configuration(file=str(tmp_path / "other" / "some.toml"))
    assert configuration.for_folder(tmp_path.as_posix()).select == ("GL102",)


@pytest.mark.parametrize(
    ("table", "on"),
    [
        ('select = ["GL1"]', FAMILY),
        ('select = ["detached-loss"]', {"GL102"}),
        ('select = ["detached_loss", "gl101"]', {"GL101", "GL102"}),
        ('select = ["GL1"]\nignore = ["GL102"]', FAMILY - {"GL102"}),
        ('select = ["GL102"]\nignore = ["GL1"]', {"GL102"}),
        ('select = ["GL102"]\nignore = ["GL102"]', set()),
        ('select = ["GL101"]\nextend-select = ["GL103"]', {"GL101", "GL103"}),
        ('select = ["GL1"]\nseverity = { GL101 = "off" }', FAMILY - {"GL101"}),
        ("select = []", set()),
    ],
)
def test_which_rules_are_on(tmp_path, table, on):
    root = put(tmp_path, f"[tool.gradline]\n{table}\n")
    found = {rule.code for rule in Configuration().for_folder(root).enabled()}
    assert {code for code in found if code.startswith("GL1")} == on


@pytest.mark.parametrize(
    ("overrides", "on"),
    [
        (Overrides(select=("GL101",)), {"GL101"}),
        (Overrides(select=("GL1",), ignore=("GL101",)), FAMILY - {"GL101"}),
        (Overrides(extend_select=("GL102",)), {"GL102", "GL103"}),
        (Overrides(ignore=("GL103",)), set()),
    ],
)
def test_the_command_line_goes_before_the_file(tmp_path, overrides, on):
    root = put(tmp_path, '[tool.gradline]\nselect = ["GL103"]\n')
    found = {rule.code for rule in Configuration(overrides=overrides).for_folder(root).enabled()}
    assert {code for code in found if code.startswith("GL1")} == on


def test_severities(tmp_path):
    root = put(tmp_path, '[tool.gradline.severity]\nGL1 = "info"\nGL102 = "warning"\nhidden-error = "off"\n')
    settings = Configuration().for_folder(root)
    assert [severity(settings, code) for code in ("GL101", "GL102", "GL103")] == [Severity.INFO, Severity.WARNING, None]


def test_per_file_ignores(tmp_path):
    table = '[tool.gradline.per-file-ignores]\n"tests/**" = ["ALL"]\n"*_pb2.py" = ["GL1"]\n"!src/**" = ["GL301"]\n'
    root = put(tmp_path, table)
    settings = Configuration().for_folder(root)

    def on(path: str) -> set[str]:
        return {code for code in ("GL101", "GL301") if severity(settings, code, f"{root}/{path}")}

    assert on("src/a.py") == {"GL101", "GL301"}
    assert on("a.py") == {"GL101"}
    assert on("tests/x/a.py") == set()
    assert on("src/a_pb2.py") == {"GL301"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.gradline]\n\nselekt = []\n", ":3: unknown setting 'selekt' in [tool.gradline]; did you mean 'select'?"),
        (
            '[tool.gradline]\nignore = ["XY999"]\n',
            ":2: unknown rule 'XY999' in 'ignore' (`gradline rules` lists them)",
        ),
        (
            '[tool.gradline]\nignore = ["detached-los"]\n',
            ":2: unknown rule 'detached-los'; did you mean 'detached-loss'? in 'ignore' (`gradline rules` lists them)",
        ),
        (
            '[tool.gradline]\nselect = "ALL"\n',
            ':2: \'select\' must be a list of strings, such as ["GL1", "detached-loss"]',
        ),
        ('[tool.gradline]\nrespect-gitignore = "yes"\n', ":2: 'respect-gitignore' must be true or false"),
        ("[tool.gradline]\nenvironment = 3\n", ":2: 'environment' must be a path, such as \".venv\""),
        (
            '[tool.gradline.severity]\nGL101 = "eror"\n',
            ':2: \'severity.GL101\' is \'eror\', but must be one of "off", "error", "warning", "info", "hint"'
            "; did you mean 'error'?",
        ),
        (
            '[tool.gradline.per-file-ignores]\n"a.py" = "GL101"\n',
            ':2: \'per-file-ignores."a.py"\' must be a list of rules, such as ["GL101"]',
        ),
        ("[tool]\ngradline = 3\n", ":2: [tool.gradline] must be a table of settings"),
        ("[tool.gradline\n", ":1: is no valid TOML: "),
        ("[project]\nname = 'x'\n\nboom\n", ":4: is no valid TOML: "),
        ('[tool.gradline]\nextend = "gone.toml"\n', ":2: 'extend' names a file that is not there: "),
        ('[tool.gradline]\nextend = "pyproject.toml"\n', ":2: 'extend' leads in a circle: "),
        ("[tool.gradline]\nextend = 1\n", ":2: 'extend' must be a path"),
    ],
)
def test_mistakes(tmp_path, text, message):
    root = put(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        Configuration().for_folder(root)
    assert str(caught.value).startswith(f"{root}/pyproject.toml{message}")


def test_not_utf_8(tmp_path):
    (tmp_path / "gradline.toml").write_bytes(b"ignore = []\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"gradline.toml:2: is not UTF-8"):
        Configuration().for_folder(tmp_path.as_posix())


def test_a_named_file_must_have_settings(tmp_path):
    root = put(tmp_path, "[project]\nname = 'x'\n")
    with pytest.raises(ConfigError, match=r"has no \[tool.gradline\] table"):
        Configuration(file=f"{root}/pyproject.toml")
    with pytest.raises(ConfigError, match="no such file"):
        Configuration(file=f"{root}/gone.toml")


def test_selectors_have_one_spelling():
    assert [selector_of(word) for word in ("all", "gl1", "GL102", "detached_loss")] == ["ALL", "GL1", "GL102", "GL102"]
    for word in ("", "E501", "XY9999", "loss", "GL8 "):
        if not any(code.startswith("GL8") for code in catalog()) or word != "GL8 ":
            with pytest.raises(ValueError, match="unknown rule"):
                selector_of(word)
