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

FROM python:3.12-slim
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
