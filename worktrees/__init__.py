"""
Git, and nothing else: this package knows no plan, no worker and no queue, and imports no other of our packages.

Its rooms, from the lowest to the highest; each imports only those before it:

- `git`: the one door to git (`git.git`). It runs within a **fence**, and opens files **beneath** a held folder: no
  link that appears meanwhile leads out of either.
- `hub`: the **hub** is the repository where all hosts meet. A **mirror** is a host's bare clone of it. Pushes are
  compare-and-swap, and so is the move of the **target**.
- `checkouts`: a **checkout** is a folder with one commit's files, leased from a **pool** of **slots**.
- `commits`: a **snapshot** turns a checkout's files into a tree, and the tree becomes a **candidate** commit.
  **Entries** are composed onto a base. Commits are compared, read and replayed.

Expected answers are values (`Conflict`, `Stale`, `TargetElsewhere`); `GitFailed` means that nothing is known. The two
are never confused. A failed push reads the refs again. A merge with any complaint is no merge, because git 2.39 takes a
tree it cannot read for an empty one and reports success.

Why not a checkout for merging? `git merge-tree --write-tree` needs no folder, no index and no lock, takes milliseconds
on any tree, and depends only on the commits. With pinned identity and dates the same entries on the same base give the
same commit everywhere. So a crash costs nothing: compose again and compare.

Why not a new worktree for every order? On 5,000 files `git worktree add` and `remove` take many times as long as
restoring a used folder (`checkouts.py` of the benchmarks). Reuse is safe because a slot is not trusted. Its index
is kept where the agent cannot write; its `.git` file and administrative folder are rewritten. Files of another mode,
owner or link count are made again; pipes and sockets (which git does not see) are removed. A slot that cannot be
restored is deleted.

Why not look at a checkout through its own `.git`? An agent may replace that file, flag files in the index as unchanged,
or write configuration that runs programs. The harness names the mirror, the folder and its own index in every call, so
a checkout's own git misleads only the agent.

Why flock and not a lock file with a pid or a time? The kernel frees a flock when its holder dies, on this boot or the
next. There is no stale lease to detect, no clock to trust and no reused pid. The price is that a lease ends with its
process and cannot be handed to another host; leases of orders, which can, are in `workers.queue`.

Why one mirror per host, and not a clone per order? Objects are fetched once, and a checkout costs only its files.
Nothing in it is truth: it may be deleted between runs, and a broken one is replaced. Its configuration is restored
before use, because an agent's `git config` in a checkout writes there.

Why links to a local hub's files and not `objects/info/alternates`? A person's `git gc --prune=now` in the hub would
then remove what only the mirror needs: the candidates of unlanded work, and the base of an old run.

What this does not protect from: an agent that may write anywhere on the host can write into the mirror's objects or the
pool's indexes. So it can write into a local hub, whose files the mirror links. The sandbox keeps it in its folder. An
agent that reads the mirror can read all objects that a bare local hub had when the mirror was made. Those of a deleted
branch are among them. A person's own clone, with an index and perhaps a stash, is fetched from instead. Files in Git
LFS stay pointers and submodules stay empty, because both would need programs and addresses that the repository names.
"""
