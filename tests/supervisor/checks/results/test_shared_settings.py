"""Settings are put back in a file that also holds what an entry may change."""

import json
import tomllib

import pytest

from forgepool.supervisor.checks.results.shared_settings import put_back

OLD = """[project]
name = "a"
dependencies = ["x"]

[tool.pytest.ini_options]  # how tests are run
addopts = "--strict-markers"

[tool.ruff.lint]
select = ["ALL"]

[tool.setuptools]
packages = ["a"]
"""


def toml(new: str | None, old: str | None = OLD, name: str = "pyproject.toml") -> dict[str, object] | None:
    text = put_back(name, old, new)
    return None if text is None else tomllib.loads(text)


def test_an_entrys_dependency_is_lost_with_its_settings() -> None:
    """Settings of runners are the target's, and packages and dependencies are the entry's."""
    new = OLD.replace('["x"]', '["x", "y"]').replace("--strict-markers", "-k nothing").replace('["ALL"]', "[]")
    mixed = toml(new.replace('packages = ["a"]', 'packages = ["a", "b"]') + "[tool.coverage]\nfail_under = 0\n")
    wanted = tomllib.loads(OLD)
    wanted["project"]["dependencies"] = ["x", "y"]
    wanted["tool"]["setuptools"]["packages"] = ["a", "b"]
    assert mixed == wanted


def test_a_change_of_other_things_is_undone() -> None:
    """If no runner's setting differs, the file is the entry's, byte for byte."""
    new = OLD.replace('["x"]', '["x", "y"]  # and why')
    assert put_back("pyproject.toml", OLD, new) == new


@pytest.mark.parametrize(
    "trick",
    [
        'tool.pytest.ini_options.addopts = "-k nothing"\n',
        '[tool]\npytest.ini_options = { addopts = "-k nothing" }\n',
        '["tool"."pytest".\'ini_options\']\naddopts = "-k nothing"\n',
        'note = """\n[tool.setuptools]\n"""\n[tool.pytest.ini_options]\naddopts = "-k nothing"\n',
        '[ tool . pytest . ini_options ]\naddopts = "-k nothing"\n',
        '[tool.setuptools.x]\na = """\n[tool.ruff]\n"""\n[tool.pytest.ini_options]\naddopts = "-k nothing"\n',
    ],
)
def test_a_setting_survives_in_a_form_of_its_own(trick: str) -> None:
    """Whatever syntax the entry uses, none of its settings is in the result."""
    found = toml(trick)
    assert found is not None
    assert found["tool"]["pytest"] == tomllib.loads(OLD)["tool"]["pytest"]  # type: ignore[index]
    assert found["tool"]["ruff"] == tomllib.loads(OLD)["tool"]["ruff"]  # type: ignore[index]


@pytest.mark.parametrize("new", ["[[[", "[project\n", "a = 1\na = 2\n", "[" * 5000])
def test_a_file_that_cannot_be_read_stays(new: str) -> None:
    """If the file cannot be parsed, the target's file is used as a whole."""
    assert put_back("pyproject.toml", OLD, new) == OLD


def test_added_settings_stay() -> None:
    """An added file loses its runner settings. A deleted file comes back with only its runner settings."""
    assert toml('[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-k x"\n', None) == {
        "project": {"name": "a"}
    }
    assert put_back("pyproject.toml", None, "[tool.ruff]\nselect = []\n") is None
    assert set(toml(None) or {}) == {"tool"}
    assert put_back("pyproject.toml", "[project]\nname = 'a'\n", None) is None


def test_setup_cfg_is_put_back_whole() -> None:
    """The same holds for setup.cfg."""
    old = "[metadata]\nname = a\n\n[tool:pytest]\naddopts = -q\n\n[flake8]\nmax-line-length = 80\n"
    new = "[metadata]\nname = b\n\n[tool:pytest]\naddopts = -k nothing\n[options]\npackages = a\n"
    mixed = put_back("setup.cfg", old, new)
    assert mixed is not None
    for there in ("name = b", "packages = a", "addopts = -q", "max-line-length = 80"):
        assert there in mixed
    assert "nothing" not in mixed


def test_a_crate_turns_its_tests_off() -> None:
    """
    Dependencies are the entry's and lints the target's. A change of `[lib]` test settings brings back the target's
    file.
    """
    old = '[package]\nname = "a"\n\n[lints.clippy]\nall = "deny"\n'
    new = '[package]\nname = "a"\n\n[dependencies]\nx = "1"\n\n[lints.clippy]\nall = "allow"\n'
    mixed = toml(new, old, "Cargo.toml")
    assert mixed == {"package": {"name": "a"}, "dependencies": {"x": "1"}, "lints": {"clippy": {"all": "deny"}}}
    assert put_back("Cargo.toml", old, f"{old}[lib]\ntest = false\n") == old


def test_a_script_of_the_entrys_is_run() -> None:
    """A package's scripts and runner settings are the target's, and its dependencies are the entry's."""
    old = {"name": "a", "scripts": {"test": "jest"}, "jest": {"verbose": True}}
    new = {"name": "a", "scripts": {"test": "true"}, "dependencies": {"x": "1"}, "mocha": {}}
    found = put_back("package.json", json.dumps(old), json.dumps(new))
    assert json.loads(found or "") == {**old, "dependencies": {"x": "1"}}
    assert put_back("package.json", json.dumps(old), "[") == json.dumps(old)
    assert put_back("package.json", json.dumps(old), "[]") == json.dumps(old)
    assert put_back("package.json", json.dumps(old), "[" * 100_000) == json.dumps(old)
    same = '{"name": "a", "scripts": {"test": "jest"}, "jest": {"verbose": true}, "files": []}'
    assert put_back("package.json", json.dumps(old), same) == same
