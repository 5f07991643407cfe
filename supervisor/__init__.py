"""
A candidate in; a verdict with certificates, a review, a landing, or reasons out. It keeps nothing between messages.

An **entry** is one task's candidate. The **gate** (`gate`) composes entries on the target's tip, in memory, into one
commit, and puts it through three stages, each reached only by what the one before let through (`candidate`):

1. **Scans** (`scans`) look at the composed difference, in milliseconds. A finding blocks, wants somebody to look, or is
   a note.
2. **Checks**: commands, defined by the target's own `forgepool.yaml`, to which a plan may add (`definitions`,
   `demands`); what a candidate changes in that file counts from its landing on. Each runs in a clean checkout and with
   private folders of its own, unless it says by `uses` that it needs what another one leaves (`checks`). What a run
   shows is judged against the same check on the tip (`results`).
3. The same checks once more with the target's own version of the tests and settings that the entry changes
   (`supervisor.checks.results.protected`).

A green check earns a **certificate** (`supervisor.checks.certificates`): this check, as defined, in this environment,
was green on these inputs. A **review** (`review`) is asked for by a message of its own. The **lander** (`lander`)
composes again, wants a valid certificate of every check, and an approval where review is wanted, by the plan or by the
target (`approvals`); it moves the target by compare-and-swap, together with a **marker** that makes landing twice
impossible.

A check may have no vote: then it is run and told where all others are green, and asked for nothing
(`supervisor.checks.non_voting`). Files that commands make of others (`regenerate` in the gate file) are made anew
while entries are composed, once, and kept in the hub for all who compose the same (`regeneration`).

Several entries may be composed at once, of which the first are only assumed to land (`ahead`): nothing is asked about
them, and what is red behind them decides about nobody. Which to try on top of which is planned by the **train**
(`train`), a pure function that others ask; the gate and the lander do as they are told, and trust nobody's word for it.

A **verdict** is `green`, `findings`, `red`, `conflict`, or one that blames nobody: `stale` (made on a commit that was
taken out of the target), `base_red` (the tip itself is red), `not_configured` (a check is missing, cannot fail, or
shows nothing), `infrastructure`. Red is somebody's failure only when what fails does not fail on the tip and failed a
second time; the tip is red only when it was red twice. Where tests are known by their ids, those that fail on the tip
as well stand in nobody's way. Where an entry is green alone and red on the tip, `blame` finds the landing it does not
go together with; conflicts name theirs as well. Without entries the whole set is run on the tip.

What checks said is remembered on the host (`supervisor.checks.store`): green on the same inputs is not run again, and
the tip that has just landed is known already. Red is always run, and turned green by nothing but itself.

Why not check the candidate's own commit: it was made on a base that is no longer the tip. Two changes that are
green alone may be red together, and only the composed tree shows it.

Why not merge first and check afterwards: then the target is what everybody starts from while it may be broken.

Why not trust the verdict and land its commit unasked: between verdict and landing lie a queue and a process that
may be old. Composing is deterministic and takes milliseconds, so the lander looks for itself.

Why a checkout for each line of checks, when the first has built what the second needs: a candidate's tests are a
candidate's code. What they leave, a file of settings or a program at home, would be found by the linter behind them. So
what a check needs of another it names; and one that is used by two is run for both. A check that changes a file of the
commit is not green, because the next one would be certified for other bytes than land.

Why not believe exit status 0: a test run that ends well and ran nothing ends well. What ran on the tip has to run here.

Why not run the tip only when an entry is red: what a green run should have shown is known from the tip alone.

Why not remember verdicts: a verdict is about a tree and a tip, and the tip moves. Runs are remembered, and judged anew.

Why not take a missing check for a pass: nothing passes by absence. A plan that wants none says `checks: none`.
"""
