"""The `forgepool` command."""

from forgepool.orchestrator.cli import main

if __name__ == "__main__":
    main()
