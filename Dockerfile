# One image for every part: orchestrator, worker and supervisor are the same program with other words behind it.
# Tasks and checks find in it Python and git, no more; for what your project's commands need, build on it:
#
#   FROM forgepool
#   USER root
#   RUN pip install --no-cache-dir ruff pytest && apt-get update && apt-get install --yes nodejs
#   USER forgepool

# The full image can compile what has no wheel for this machine; the small one below is spared the compiler.
FROM python:3.12 AS build
WORKDIR /src
COPY pyproject.toml README.md ./
COPY orchestrator orchestrator
COPY supervisor supervisor
COPY workers workers
COPY worktrees worktrees
COPY examples examples
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[all]'

FROM python:3.12-slim AS base
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client bubblewrap \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels 'forgepool[all]' && rm -rf /wheels

# Git refuses folders of other users and agents' commands need no root: everything runs as one ordinary user.
RUN useradd --create-home --uid 10001 forgepool \
    && install --directory --owner forgepool --group forgepool /home/forgepool/.local/state/forgepool
USER forgepool
WORKDIR /home/forgepool
ENTRYPOINT ["forgepool"]
CMD ["--help"]

# `docker build --target agents`: with the command-line agents besides, each as docs/how-to/agents.md installs it.
FROM base AS agents
USER root
COPY --from=node:22-slim /usr/local/bin/node /usr/local/bin/node
COPY --from=node:22-slim /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln --symbolic ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
    && npm install --global @anthropic-ai/claude-code @openai/codex opencode-ai \
    && npm cache clean --force
ENV UV_TOOL_DIR=/opt/uv-tools UV_TOOL_BIN_DIR=/usr/local/bin
RUN pip install --no-cache-dir uv && uv tool install --no-cache --python 3.12 aider-chat
USER forgepool

# The last one is what is built where no target is named.
FROM base AS plain
