"""
The `forgepool` command: words in, sentences out.

Every command answers with one of five exit statuses: 0 all landed, 1 something did not land, 2 wrong usage or plan,
3 infrastructure, 130 interrupted and resumable. A mistake is one sentence on standard error, never a traceback.
Commands live in modules by what they are about; each is a thin shell around functions that can be called without it.
"""

import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line and exits with its status; so does Ctrl-C while its modules are still being loaded."""
    try:
        from forgepool.orchestrator.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
