"""
Files that a command makes of others (lock files, generated code), made anew while entries are composed.

The target's `forgepool.yaml` says which these are and how they are made (`definitions`). While an entry is put on the
tip, two versions of such a file are no conflict; and where both the tip and the entry have brought in something of what
counts, neither's version is that of the merged tree, so the command is run on it (`running`), in the sandbox in which
checks run, and what it makes becomes part of the entry's step (`remaking`). An entry that has found nothing new beneath
it stands as it was submitted, and costs no run.

A command may make another file each time, on each host. What is tested must be what lands; so what was made is kept in
the hub (`kept`) under a **key**, a digest of the command and of what it was made of, by who comes first; everybody
after takes what is kept, and the lander takes nothing else: it runs no command, and refuses where nothing is kept. Who
dies between running and keeping leaves nothing behind, and the command is run again.

Why not trust the version in the certificate's tree: the lander composes for itself, from the entries and the hub alone.

Why not run the command again at landing and compare: most commands ask a registry that has moved on meanwhile.

Why not in the mirror alone: the lander may be another host.
"""
