"""Changes to what runs and judges changes, and code that detects its tests, with honest ones beside them."""

from collections.abc import Mapping
from typing import NamedTuple

Content = str | tuple[str, str]


class Change(NamedTuple):
    """Files before and after, and the weight of the expected finding."""

    name: str
    before: Mapping[str, Content]
    after: Mapping[str, Content | None]
    weight: str = "blocks"
    run: str = "pytest"


def added(path: str, text: str = "x\n", weight: str = "blocks", *, run: str = "pytest", name: str = "") -> Change:
    return Change(name or f"{path} added", {"a": "1\n"}, {path: text}, weight, run)


def edited(
    path: str, old: str = "x\n", new: str = "y\n", weight: str = "blocks", *, run: str = "pytest", name: str = ""
) -> Change:
    return Change(name or f"{path} edited", {"a": "1\n", path: old}, {path: new}, weight, run)


PEOPLES = (
    *(
        ".envrc",
        ".env",
        "web/.env",
        ".vscode/tasks.json",
        "web/.vscode/launch.json",
        "app.code-workspace",
        ".idea/misc.xml",
    ),
    *(
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".mcp.json",
        ".claude/settings.json",
        ".codex/config.toml",
    ),
    *(".cursor/mcp.json", ".gemini/settings.json", "mise.toml", ".tool-versions", "pip.conf", "uv.toml", ".yarnrc.yml"),
    *(".pnpmfile.cjs", "bunfig.toml", "web/.husky/pre-push", ".git-hooks/pre-push", "lefthook.yml", ".Envrc"),
    *(".roo/mcp.json", ".kiro/settings/mcp.json", ".junie/mcp/mcp.json", ".vscode/Settings.json"),
)
"""Files that run by themselves on the machines of people."""
INSTRUCTIONS = (
    *(
        "AGENTS.md",
        "web/AGENTS.md",
        "CLAUDE.md",
        "GEMINI.md",
        ".cursorrules",
        ".cursor/rules/style.mdc",
        "CONTRIBUTING.md",
    ),
    *(
        ".github/copilot-instructions.md",
        ".github/instructions/a.instructions.md",
        ".windsurfrules",
        ".clinerules",
    ),
)
"""Files that tell agents and reviewers what to do."""
PROTECTED: tuple[Change, ...] = (
    *(edited(path) for path in (".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile")),
    *(added(path) for path in ("azure-pipelines.yml", ".ci/run.sh", ".husky/pre-push", ".githooks/pre-commit")),
    *(edited(path) for path in ("forgepool.yaml", ".gitattributes", ".gitmodules", "CODEOWNERS", ".github/CODEOWNERS")),
    *(added(path) for path in (".forgepool/x", ".forgepool.toml", "sub/.gitattributes", ".pre-commit-config.yaml")),
    Change("workflow deleted", {".github/workflows/ci.yml": "x\n", "a": "1\n"}, {".github/workflows/ci.yml": None}),
    Change(
        "workflow moved away",
        {".github/workflows/ci.yml": "x\n", "a": "1\n"},
        {".github/workflows/ci.yml": None, "ci.yml": "x\n"},
    ),
    added(".GitHub/workflows/ci.yml", name="workflow in another case"),
    edited("Makefile", run="make test"),
    added("GNUmakefile", run="make test"),
    edited("rules.mk", run="make test"),
    edited("build/Makefile", run="make -C build test"),
    edited("scripts/check.sh", run="sh scripts/check.sh"),
    edited("check", run="./check --all"),
    edited("tools/lint.py", run="python3 -X dev tools/lint.py src"),
    edited("deep/run.sh", run="cd deep && bash run.sh"),
    edited("set.cfg", run="ruff check --config set.cfg ."),
    edited("noxfile.py", run="nox -s tests"),
    edited("tox.ini", run="tox"),
    edited("justfile", run="just test"),
    edited("wrapped.sh", run="CI=1 timeout 60 ./wrapped.sh"),
    edited("poetry.lock", name="lock alone"),
    edited("ui/package-lock.json", name="lock alone, below"),
    edited("Cargo.lock"),
    edited("go.sum"),
    edited("requirements.lock"),
    edited("requirements.txt", "a==1 --hash=sha256:1\n", "a==1 --hash=sha256:2\n", name="hashes"),
    Change(
        "lock and manifest",
        {"uv.lock": "x\n", "pyproject.toml": "x = 1\n"},
        {"uv.lock": "y\n", "pyproject.toml": "x = 2\n"},
        "attention",
    ),
    Change(
        "lock and manifest above",
        {"package.json": "{}\n", "a/yarn.lock": "x\n"},
        {"package.json": '{"a": 1}\n', "a/yarn.lock": "y\n"},
        "attention",
    ),
    Change(
        "script of a script",
        {"check.sh": "python tools/gate.py\n", "tools/gate.py": "x\n"},
        {"tools/gate.py": "y\n"},
        run="sh check.sh",
    ),
    Change(
        "script of a makefile",
        {"Makefile": "test:\n\t@sh tools/t.sh\n", "tools/t.sh": "x\n"},
        {"tools/t.sh": "y\n"},
        run="make test",
    ),
    edited("guarded/x.py", name="by the gate file"),
    *(added(path) for path in PEOPLES),
    *(edited(path, weight="attention") for path in INSTRUCTIONS),
)
OPEN: tuple[Change, ...] = (
    *(
        edited(path)
        for path in ("src/app.py", "docs/ci.md", ".github/ISSUE_TEMPLATE/bug.md", "README.md", "scripts/other.sh")
    ),
    *(added(path) for path in (".env.example", ".vscode/extensions.json", "docs/agents.md", "src/mise/core.py")),
    *(added(path) for path in ("docs/forgepool.yaml.md", "src/workflows/ci.yml", "src/codeowners.py")),
    edited("Makefile", run="pytest"),
    edited("tests/test_app.py", run="pytest tests/test_app.py"),
    edited("src/app.py", run="mypy src/app.py"),
    edited("requirements.txt", "a==1\n", "a==2\n", name="requirements without hashes"),
    edited("pyproject.toml", "[project]\nversion = '1'\n", "[project]\nversion = '2'\n"),
    edited("package.json", '{"version": "1"}\n', '{"version": "2"}\n'),
)

_PYPROJECT = (
    "[project]\nname = 'a'\ndependencies = ['x']\n\n[tool.pytest.ini_options]\naddopts = '-q'\nmarkers = ['slow']\n"
)
_PACKAGE = '{"name": "a", "scripts": {"test": "jest", "build": "tsc"}, "jest": {"bail": true}}\n'
_TSCONFIG = '{\n  // strict\n  "compilerOptions": {"strict": true, "target": "es2020"},\n}\n'
_SETUP = "[metadata]\nversion = 1\n\n[flake8]\nmax-line-length = 100\n"
_CARGO = '[package]\nname = "a"\nversion = "1.0.0"\n\n[lints.rust]\nunsafe_code = "forbid"\n'
_CONFTEST = "import pytest\n\n\n@pytest.fixture\ndef place(tmp_path):\n    return tmp_path\n"


def _hook(text: str, name: str, weight: str = "blocks") -> Change:
    return edited("tests/conftest.py", _CONFTEST, _CONFTEST + "\n\n" + text, weight, name=f"conftest: {name}")


def _toml(old: str, new: str, name: str, path: str = "pyproject.toml", text: str = _PYPROJECT) -> Change:
    assert old in text
    return edited(path, text, text.replace(old, new), name=f"{path}: {name}")


_EDITOR = '{"name": "a"}\n'
SETTINGS: tuple[Change, ...] = (
    _toml('"a"', '"a", "git.path": "./git"', "program", ".vscode/settings.json", _EDITOR),
    _toml('"a"', '"a", "terminal.integrated.env.linux": {"A": "1"}', "terminal", ".vscode/settings.json", _EDITOR),
    _toml("'-q'", "'-q --deselect tests/test_a.py'", "deselects"),
    _toml("'-q'", "'-q -k not_this'", "chooses"),
    _toml("markers = ['slow']", "markers = []", "marker dropped"),
    _toml("[tool.pytest", "[tool.ruff.lint]\nignore = ['E', 'F']\n\n[tool.pytest", "lint off"),
    _toml("[tool.pytest", "[tool.mypy]\nignore_errors = true\n\n[tool.pytest", "types off"),
    _toml("[tool.pytest", "[tool.coverage.report]\nfail_under = 0\n\n[tool.pytest", "coverage off"),
    _toml("[tool.pytest", "[project.entry-points.pytest11]\nx = 'a.plugin'\n\n[tool.pytest", "plugin"),
    _toml("[tool.pytest", "[tool.pytest", "broken", text=_PYPROJECT)._replace(after={"pyproject.toml": "[tool\n"}),
    _toml("100", "1000", "flake8", "setup.cfg", _SETUP),
    _toml("[flake8]", "[tool:pytest]\naddopts = --co\n\n[flake8]", "pytest in setup.cfg", "setup.cfg", _SETUP),
    _toml('"forbid"', '"allow"', "lints", "Cargo.toml", _CARGO),
    _toml("[lints", "[lib]\ntest = false\n\n[lints", "tests off", "Cargo.toml", _CARGO),
    _toml('"jest",', '"true",', "script", "package.json", _PACKAGE),
    _toml('"build"', '"pretest": "rm -r test", "build"', "script before", "package.json", _PACKAGE),
    _toml('"bail": true', '"testPathIgnorePatterns": ["x"]', "jest", "package.json", _PACKAGE),
    _toml('"strict": true', '"strict": false', "strict", "tsconfig.json", _TSCONFIG),
    _toml('"target"', '"noEmitOnError": false, "target"', "emit", "tsconfig.json", _TSCONFIG),
    *(
        added(path)
        for path in (
            "pytest.ini",
            "sub/pytest.ini",
            "ruff.toml",
            "src/.ruff.toml",
            "mypy.ini",
            ".flake8",
            ".coveragerc",
        )
    ),
    *(
        added(path)
        for path in (
            ".eslintrc.json",
            "src/.eslintrc",
            "eslint.config.mjs",
            "jest.config.js",
            "vitest.config.ts",
            ".golangci.yml",
        )
    ),
    *(
        added(path)
        for path in (
            "clippy.toml",
            ".mocharc.yml",
            "phpunit.xml",
            ".rubocop.yml",
            ".npmrc",
            ".cargo/config.toml",
            "pyrightconfig.json",
        )
    ),
    Change("pytest.ini deleted", {"pytest.ini": "[pytest]\n", "a": "1\n"}, {"pytest.ini": None}),
    Change("pytest.ini moved", {"pytest.ini": "[pytest]\n", "a": "1\n"}, {"pytest.ini": None, "old.ini": "[pytest]\n"}),
    edited("pom.xml", "<a/>\n", "<a/>\n<testFailureIgnore>true</testFailureIgnore>\n", name="maven"),
    edited("vite.config.ts", "export default {}\n", "export default { test: { exclude: ['x'] } }\n", name="vite"),
    _hook("def pytest_collection_modifyitems(items):\n    items.clear()\n", "drops tests"),
    _hook("def pytest_sessionfinish(session):\n    session.exitstatus = 0\n", "exit status"),
    _hook("@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    yield\n", "reports"),
    _hook("def pytest_configure(config):\n    pass\n", "configure"),
    _hook("class Quiet:\n    def pytest_runtest_protocol(self, item):\n        return True\n", "hook in a class"),
    _hook("pytest_runtest_call = lambda item: None\n", "hook by assignment"),
    _hook("from tests.quiet import pytest_runtest_call\n", "hook by import"),
    _hook("pytest_plugins = ['quiet']\n", "plugin"),
    _hook(
        "@pytest.fixture(autouse=True)\ndef quiet(monkeypatch):\n    monkeypatch.setattr('app.check', print)\n",
        "around all",
        "attention",
    ),
    added("sub/conftest.py", "def pytest_ignore_collect():\n    return True\n", name="new conftest"),
    added("tests/quiet.py", "def pytest_runtest_call(item):\n    pass\n", "attention", name="plugin elsewhere"),
)
OTHER_SETTINGS: tuple[Change, ...] = (
    _toml('"a"', '"a", "editor.rulers": [120]', "looks", ".vscode/settings.json", _EDITOR),
    _toml("['x']", "['x', 'y']", "dependency"),
    _toml("'slow'", "'slow', 'network'", "marker added"),
    _toml("name = 'a'", "name = 'a'\nversion = '2'", "version"),
    _toml("[tool.pytest", "[tool.poetry.scripts]\nx = 'a:b'\n\n[tool.pytest", "script"),
    _toml("version = 1", "version = 2", "version", "setup.cfg", _SETUP),
    _toml('"1.0.0"', '"1.0.1"', "version", "Cargo.toml", _CARGO),
    _toml('"build"', '"start": "node .", "build"', "script added", "package.json", _PACKAGE),
    _toml('"name": "a"', '"name": "a", "dependencies": {"x": "1"}', "dependency", "package.json", _PACKAGE),
    _toml('"es2020"', '"es2022"', "target", "tsconfig.json", _TSCONFIG),
    edited("pom.xml", "<version>1</version>\n", "<version>2</version>\n", name="maven version"),
    _hook("@pytest.fixture\ndef other():\n    return 1\n", "fixture"),
    _hook("@pytest.fixture(autouse=True)\ndef clean(place):\n    place.touch()\n", "around all"),
    added("sub/conftest.py", _CONFTEST, name="new conftest"),
    added("docs/pytest.md"),
    added("src/settings.toml"),
)


def code(text: str, name: str, path: str = "src/app/core.py", weight: str = "blocks", before: str = "") -> Change:
    there = {"src/app/__init__.py": "", "a": "1\n"} | ({path: before} if before else {})
    return Change(f"{path.rpartition('.')[2]}: {name}", there, {path: before + text}, weight)


_T, _C = "tests/test_core.py", "tests/conftest.py"
HARNESS: tuple[Change, ...] = (
    code("import sys\nsys.exit(0)\n", "exit at import"),
    code("import sys\nif True:\n    sys.exit()\n", "exit at import, below"),
    code("raise SystemExit\n", "raised at import"),
    code("raise SystemExit(0)\n", "raised at import with 0"),
    code("quit()\n", "quit"),
    code("class A:\n    exit(0)\n", "in a class body"),
    code("import os\n\n\ndef f():\n    os._exit(0)\n", "hard exit in a function"),
    code("import atexit, os\natexit.register(os._exit, 0)\n", "hard exit at the end"),
    code("from os import _exit\n", "hard exit by name"),
    code("#!/usr/bin/env python\nimport sys\nsys.exit(0)\n", "exit in a package behind a shebang"),
    code("import sys\nsys.exit(0)\n", "exit in conftest", _C),
    code("import os\n\n\ndef test_a():\n    os._exit(0)\n", "exit in a test", _T),
    code("import sys\nsys.exit(0)\n", "exit of a module of tests", _T),
    code("import os, signal\n\n\ndef f():\n    os.kill(os.getppid(), signal.SIGKILL)\n", "parent killed"),
    code("import os\n\n\ndef test_a():\n    os.kill(os.getppid(), 9)\n", "parent killed by a test", _T),
    code("kill -9 $PPID\n", "parent killed", "tool.sh"),
    code("import os\n\n\ndef f():\n    if os.environ.get('CI'):\n        return 2\n", "CI"),
    code("import os\n\n\ndef f():\n    return 2 if 'PYTEST_CURRENT_TEST' in os.environ else 3\n", "current test"),
    code("import os\n\n\ndef f():\n    return os.getenv('GITHUB_ACTIONS') == 'true'\n", "actions"),
    code("import os\n\n\ndef f():\n    return os.environ['FORGEPOOL_RUN']\n", "forgepool"),
    code("import sys\n\n\ndef f():\n    return 1 if 'pytest' in sys.modules else 2\n", "modules"),
    code("import sys\n\n\ndef f():\n    return sys.argv[0].endswith('pytest')\n", "arguments"),
    code("import _pytest.runner\n", "internals"),
    code("import pytest\n", "runner", weight="attention"),
    code("from unittest import mock\n", "mock", weight="attention"),
    code("import unittest\n\nunittest.TestCase.assertEqual = print\n", "patched"),
    code("import pytest\n\npytest.raises = print\n", "patched in a test", _T),
    code("from _pytest import runner as r\n\nr.runtestprotocol = print\n", "patched by alias", _C),
    code("from unittest import TestCase\n\nsetattr(TestCase, 'run', print)\n", "patched by setattr", _T),
    code("def f(session):\n    session.exitstatus = 0\n", "exit status", "tests/help.py"),
    code("import sys\n\nsys.modules['pytest'] = None\n", "module replaced"),
    code("import builtins\n\nbuiltins.AssertionError = ValueError\n", "assertion replaced"),
    code("def f(path):\n    path.joinpath('junit.xml').write_text('<testsuite/>')\n", "report forged"),
    code("def test_a():\n    open('.forgepool/certificate.json', 'w')\n", "certificate in a test", _T, "attention"),
    code("class A:\n    def __eq__(self, other):\n        return True\n", "always equal", weight="attention"),
    *(
        added(path)
        for path in ("sitecustomize.py", "src/usercustomize.py", "x.pth", "pytest.py", "src/unittest/__init__.py")
    ),
    *(
        added(path)
        for path in ("ruff.py", "tests/coverage.py", "typing.py", "src/json.py", "node_modules/jest/index.js")
    ),
    *(added(path) for path in (".venv/bin/pytest", "a.dist-info/entry_points.txt", "mypy/__main__.py")),
    code("process.exit(0);\n", "exit", "src/app.js"),
    code("process.exitCode = 0;\n", "exit code", "src/app.ts"),
    code("it('a', () => { process.exit(0); });\n", "exit in a test", "test/a.test.js"),
    code("export const f = () => (process.env.CI ? 1 : 2);\n", "CI", "src/app.ts"),
    code("if (process.env.JEST_WORKER_ID) { skip(); }\n", "jest", "src/app.js"),
    code("const t = typeof jest !== 'undefined';\n", "jest known by name", "src/app.js"),
    code("global.expect = () => ({ toBe() {} });\n", "expect replaced", "test/setup.js"),
    code("process.kill(process.ppid);\n", "parent killed", "src/app.js"),
    code('package app\n\nimport "os"\n\nfunc init() {\n\tos.Exit(0)\n}\n', "init", "app.go"),
    code("package app\n\nfunc TestMain(m *testing.M) {\n\tos.Exit(0)\n}\n", "TestMain", "app_test.go"),
    code("package app\n\nfunc TestA(t *testing.T) {\n\tos.Exit(0)\n}\n", "exit", "app_test.go"),
    code('package app\n\nfunc F() bool {\n\treturn os.Getenv("CI") != ""\n}\n', "CI", "app.go"),
    code("package app\n\nfunc F() bool {\n\treturn testing.Testing()\n}\n", "testing", "app.go"),
    code("#[test]\nfn a() {\n    std::process::exit(0);\n}\n", "exit in a test", "tests/a.rs"),
    code('pub fn f() -> bool {\n    std::env::var("CI").is_ok()\n}\n', "CI", "src/lib.rs"),
    code("class ATest {\n  @Test void a() { System.exit(0); }\n}\n", "exit in a test", "src/test/java/ATest.java"),
    code('class A {\n  boolean f() { return System.getenv("CI") != null; }\n}\n', "CI", "src/main/java/A.java"),
    code("def f\n  ENV['CI'] ? 1 : 2\nend\n", "CI", "lib/a.rb"),
    code("def test_a(monkeypatch):\n    monkeypatch.setitem(globals(), 'f', print)\n", "stand-in", _T),
    code("globals()['test_a'] = print\n", "test replaced", _T),
    Change(
        "package beside the tests",
        {"src/app/core.py": "x\n", "src/app/__init__.py": ""},
        {"tests/app/core.py": "y\n", "tests/app/__init__.py": ""},
    ),
    code("import os\nx = 1" + " " * 30_000 + "; y = os._exit\n", "far to the right"),
)
UNAWARE: tuple[Change, ...] = (
    code("import os\n\n\ndef test_a():\n    assert os.environ['PYTEST_XDIST_WORKER']\n", "runner asked by a test", _T),
    code(
        'import sys\n\n\ndef main():\n    sys.exit(1)\n\n\nif __name__ == "__main__":\n    sys.exit(main())\n', "main"
    ),
    code("import sys\n\nfrom app.core import main\n\nsys.exit(main())\n", "dunder main", "src/app/__main__.py"),
    code("#!/usr/bin/env python\nimport sys\n\nsys.exit(print('x'))\n", "script", "scripts/say.py"),
    code("def f():\n    raise SystemExit(2)\n", "raised in a function"),
    code("import os\n\n\ndef home():\n    return os.environ.get('HOME')\n", "HOME"),
    code("import os\n\n\ndef f():\n    return os.environ.get('CITY')\n", "a longer name"),
    code("import os\n\n\ndef f(pid):\n    os.kill(pid, 15)\n", "its own child is ended"),
    code("# os._exit(0) is not for us; see os.environ['CI']\n", "comment"),
    code("import os\n\n\ndef test_a():\n    assert os.environ.get('CI') != 1\n", "CI in a test", _T),
    code("import pytest\n\n\ndef test_a():\n    with pytest.raises(SystemExit):\n        f()\n", "exit expected", _T),
    code(
        "from unittest.mock import patch\n\n\n@patch('app.core.f')\ndef test_a(f):\n    f.return_value = 1\n",
        "mock in a test",
        _T,
    ),
    code(
        "def test_a(monkeypatch):\n    monkeypatch.setattr('app.f', print)\n    monkeypatch.setenv('CI', '1')\n",
        "patched product",
        _T,
    ),
    code("import pytest\n\n\n@pytest.fixture\ndef a():\n    return 1\n", "conftest", _C),
    code("import os\n\nCI = os.environ.get('CI')\n", "CI in conftest", _C),
    code("def f(path):\n    path.write_text('<html/>')\n", "file written"),
    code("class A:\n    def __eq__(self, other):\n        return self.x == other.x\n", "equality"),
    code("class A:\n    def f(self):\n        self.errors = []\n        self.result.outcome = 'x'\n", "own outcome"),
    *(
        added(path, name=f"{path} beside")
        for path in ("src/app/typing.py", "src/app/json.py", "tests/unit/types.py", "docs/pytest.md")
    ),
    edited("typing.py", name="one that is there already"),
    code("function main() { process.exit(1); }\nmain();\n", "in a function", "src/cli.js"),
    code("#!/usr/bin/env node\nprocess.exit(run());\n", "script", "bin/cli.js"),
    code("if (!port) {\n  process.exit(2);\n}\n", "failure", "server.js"),
    code("try:\n    import yaml\nexcept ImportError:\n    raise SystemExit('install yaml')\n", "failed import"),
    code("const home = process.env.HOME;\nconst city = process.env.CITY;\n", "HOME", "src/app.ts"),
    code("package main\n\nfunc main() {\n\tos.Exit(1)\n}\n", "main", "main.go"),
    code("package app\n\nfunc TestMain(m *testing.M) {\n\tsetUp()\n\tos.Exit(m.Run())\n}\n", "TestMain", "app_test.go"),
    code("fn main() {\n    std::process::exit(run());\n}\n", "main", "src/main.rs"),
    code("class A {\n  public static void main(String[] a) { System.exit(1); }\n}\n", "main", "src/main/java/A.java"),
    code('echo "$CIRCLE"\nkill "$child"\n', "shell", "tool.sh"),
)
