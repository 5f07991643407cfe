"""
The supervisor judges one candidate: verdict and certificates, a review, a landing, or reasons. It keeps no memory.

An **entry** is one task's candidate. The gate (`gate.check_entry`) composes entries onto the tip of the target, in
memory, into one commit. That commit passes three stages:

1. **Scans** (`workers.workspace.scans`) read the composed diff, in milliseconds. A finding blocks, asks for a look, or
   is a note.
2. **Checks** (`checks`) are commands from the target's own `forgepool.yaml` (`workers.policy.gate_file`), to which a
   plan may add. A change to that file counts only after it has landed. Each check runs in a clean checkout with private
   folders, unless its `uses` names a check whose output it needs. Its result is compared with the same check on the tip
   (`checks.results`).
3. The same checks run once more with the target's own version of the tests and settings that the entry changes
   (`checks.results.protected`).

A green check earns a **certificate** (`checks.certificates`): this check, as defined, in this environment, was green on
these inputs. A **review** (`review`) is a message of its own. To land, `gate.land` composes again and demands a valid
certificate of every check, and an approval where one is required (`gate.approvals`). Then it moves the target by
compare-and-swap. The same push writes a **marker**, which makes a second landing impossible.

A check without a vote is run after all others are green, and only reported (`checks.non_voting`). Generated files
(`regenerate` in the gate file) are made again during composition, once, and kept in the hub (`regeneration`).
`detection` proposes checks to `forgepool init`.

Several entries may be composed at once. The entries in `ahead` are assumed to land: this verdict says nothing about
them. The **train** (`train`) plans the trials: which entry is tested behind which others. It is a pure function of the
orchestrator's state; gate and lander check every claim in it again.

A **verdict** is `green`, `findings`, `red`, `conflict`, or one that blames no entry. `stale`: the entry was made on a
commit that was removed from the target. `apart`: an entry ahead changes the gate file and has to land first.
`base_red`: the tip itself fails. `not_configured`: a check is missing, cannot fail, or shows nothing.
`infrastructure`: a host, the hub or the network failed.

A failure counts against an entry only when it happens twice and does not happen on the tip. Where tests have ids, tests
that fail on the tip as well are ignored. If an entry is green alone and red on the tip, `gate.blame` finds the landing
it conflicts with.

Green results are remembered on the host (`checks.store`), so that the same inputs are not run again. Red results are
always run.

Why not check the candidate's own commit: its base is no longer the tip. Two changes that are green alone may be red
together, and only the composed tree shows it.

Why not merge first and check afterwards: all work starts from the target, and it might be broken meanwhile.

Why not land the verdict's commit as it is: a queue and a process of unknown age lie between the two. Composing is
deterministic and takes milliseconds, so the lander composes for itself.

Why a checkout for each group of checks: a candidate's tests are a candidate's code. A file they leave would be read by
the linter after them. A check that changes a file of the commit is not green, because the next one would be certified
for other bytes than land.

Why not believe exit status 0: a test run that ran nothing also exits with 0. Every test that ran on the tip must run
here.

Why not remember verdicts: a verdict is about a tree and a tip, and the tip moves. Runs are remembered and judged again.

Why not take a missing check for a pass: nothing passes by absence. A plan that wants no checks says `checks: none`.
"""
