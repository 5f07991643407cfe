"""
The language servers that are used without being configured, where their program is found. The first of a language wins.
"""

from forgepool.workers.tools.config import LanguageServer

# basedpyright's own defaults find fault with most code there is; a project that wants them says so in its own files.
_PYRIGHT = {"analysis": {"diagnosticMode": "openFilesOnly", "typeCheckingMode": "standard"}}

KNOWN = (
    LanguageServer(
        name="basedpyright",
        command=("basedpyright-langserver", "--stdio"),
        files={".py": "python", ".pyi": "python"},
        settings={"basedpyright": _PYRIGHT, "python": {}},
    ),
    LanguageServer(
        name="pyright",
        command=("pyright-langserver", "--stdio"),
        files={".py": "python", ".pyi": "python"},
        settings={"python": _PYRIGHT},
    ),
    LanguageServer(
        name="typescript",
        command=("typescript-language-server", "--stdio"),
        files={
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".tsx": "typescriptreact",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".jsx": "javascriptreact",
        },
    ),
    LanguageServer(name="gopls", command=("gopls",), files={".go": "go"}),
    LanguageServer(name="rust-analyzer", command=("rust-analyzer",), files={".rs": "rust"}),
    LanguageServer(
        name="clangd",
        command=("clangd", "--log=error"),
        files={
            ".c": "c",
            ".h": "c",
            ".cc": "cpp",
            ".cpp": "cpp",
            ".cxx": "cpp",
            ".hh": "cpp",
            ".hpp": "cpp",
            ".hxx": "cpp",
        },
    ),
)
