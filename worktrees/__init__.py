"""
Git, and nothing else: this package knows no plan, no worker and no queue, and imports nothing of ours.

The rooms, from the lowest to the highest; each imports only those before it:

- `git`: the one door to git (`git.git`), settings, locks. Files that others may be changing are opened **beneath** a
  held folder, and git reads them within a **fence**: a link that appears meanwhile leads neither of them out.
- `hub`: the **hub** is the repository where all hosts meet. A **mirror** is a host's bare clone of it. Pushes go by
  compare-and-swap, and so does the move of the **target**.
- `checkouts`: a **checkout** is a folder with one commit's files, leased from a **pool** of **slots**.
- `commits`: the files of a checkout become a tree by a **snapshot**, the tree a **candidate** commit. **Entries** are
  composed onto a base. Commits are compared, read and replayed.

Answers that are expected are values (`Conflict`, `Stale`, `TargetElsewhere`); `GitFailed` means that nothing is
known. Nothing here takes the second for the first: a push that failed looks at the refs again, and a merge that
wrote any complaint is no merge, because git 2.39 takes a tree it cannot read for an empty one and reports success.

Why not a checkout for merging? `git merge-tree --write-tree` needs no folder, no index and no lock, takes
milliseconds on any tree, and depends on nothing but the commits; with pinned identity and dates the same entries
on the same base give the same commit everywhere. So a crash costs nothing: compose again and compare.

Why not a new worktree for every order? On 5,000 files `git worktree add` and `remove` take many times as long as
bringing a used folder back (`benchmarks/checkouts.py` measures it). What makes reuse safe is that a slot is not
believed: its index is kept where the agent cannot write, its `.git` file and administrative folder are written
anew, files of another mode, owner or link count are made anew, pipes and sockets (which git does not see) are
removed, and a slot that resists is deleted.

Why not look at a checkout through its own `.git`? Whoever works in it may replace that file, flag files in the
index as unchanged, or write configuration that runs programs. The harness names the mirror, the folder and its
own index in every call, so a checkout's own git can only mislead its own user.

Why flock and not a lock file with a pid or a time? The kernel frees a flock when its holder dies, however it
dies, on this boot or the next. There is no stale lease to detect, no clock to trust and no pid to be used again.
The price is that a lease ends with its process and cannot be handed to another host; leases of orders, which can,
live elsewhere.

Why one mirror per host, and not a clone per order? Objects are fetched once, and a checkout costs its files only.
Nothing in it is truth: it may be deleted between runs, and a broken one is made again. Its own configuration is
put back before it is used, because an agent's `git config` in a checkout writes there.

What this does not protect from: an agent that may write anywhere on the host can write into the mirror's objects
or the pool's indexes. Keeping it in its folder is the sandbox's part. Files in Git LFS stay pointers and submodules
stay empty, because both would need programs and addresses that the repository names.
"""
