"""
A candidate in; a verdict with certificates, a landing, or reasons out. It keeps nothing between messages.

An **entry** is one task's candidate. The **gate** (`gate`) composes entries on the target's tip, in memory, into
one commit, and runs the **checks** on a clean checkout of exactly that commit (`checks`). Checks are defined by the
target's own `forgepool.yaml`, to which a plan may add (`definitions`); what a candidate changes in that file counts
from its landing on. A green check earns a **certificate** (`certificates`): this check, as defined, in this
environment, was green on this tree. The **lander** (`lander`) composes once more, wants a valid certificate of
every check for that tree, and moves the target by compare-and-swap, together with a **marker** that makes landing
twice impossible.

A **verdict** is `green`, `red`, `conflict`, or one that blames nobody: `stale` (made on a commit that was taken out
of the target), `base_red` (the tip itself is red), `not_configured`, `infrastructure`. Red is somebody's failure
only when the tip is green on that check and the failure came a second time; the tip is red only when it was red
twice. Where an entry is green alone and red on the tip, `blame` finds the landing it does not go together with;
conflicts name theirs as well.

This is the gate's first form: one entry at a time. Nobody reviews yet; the queue `reviews` is there and stays
empty.

Why not check the candidate's own commit: it was made on a base that is no longer the tip. Two changes that are
green alone may be red together, and only the composed tree shows it.

Why not merge first and check afterwards: then the target is what everybody starts from while it may be broken.

Why not trust the verdict and land its commit unasked: between verdict and landing lie a queue and a process that
may be old. Composing is deterministic and takes milliseconds, so the lander looks for itself.

Why not a fresh checkout for every check: the second often needs what the first has built. So files may be added; a
check that changes a file of the commit is not green, because the next one would be certified for other bytes than
land.

Why not take a missing check for a pass: nothing passes by absence. A plan that wants none says `checks: none`.
"""
