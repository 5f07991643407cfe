"""
Files that a command generates from others (lock files, generated code), regenerated while entries are composed.

The target's `forgepool.yaml` defines the files and their commands. Two versions of such a file are no conflict. If
both the tip and the entry bring in something that the files depend on, neither version fits the merged tree. The
command then runs on that tree (`running`), in the sandbox of the checks, and its output joins the entry's step
(`regenerate`). An entry that finds nothing new beneath it stands as submitted, and costs no run.

A command may write a different file each time and on each host, but what was tested must be what lands. So the hub
keeps the output (`kept`) under a **key**: a digest of the command and of the tree it ran on. The first output wins,
and everyone after it uses that one. The lander runs no command, and refuses a missing output. A host that dies
between running and keeping leaves nothing behind, and the command runs again.

Why not trust the version in the certificate's tree: the lander composes for itself, from the entries and the hub.

Why not run the command again at landing and compare: most commands ask a registry that has moved on meanwhile.

Why not keep the output in the mirror alone: the lander may be another host.
"""
