"""
A plan in, a landed target out: the only package that remembers, and the only one that decides.

A **run** is one journey of a **plan**. Its **journal** is a list of **events**; its **state** is what folding them
gives, and is stored nowhere. Each turn of the run loop (`loop`) reads **answers**, looks after **leases**
(`watch`), takes in people's **requests** (`inbox`), asks `decisions.decide` what follows, keeps the events, and
only then sends the messages they stand for (`dispatch`). A task goes

    pending -> running -> answered -> candidate -> queued -> testing -> landing -> landed

and may leave that road for `failed`, `blocked`, `cancelled` or `needs_human`. From `running` to `landing` it is
**in flight** and holds the **lock** of the paths it may write: its declared globs, and what it touched or was granted
besides.

Who is `queued` stands in the **train** (`train_state`), the one that the supervisor plans (`supervisor.train`): one or
more entries are a **car**, and a **trial** checks a car on top of the target and of the cars ahead of it. What is green
lands as it was tested, with all that it was tested behind, in one move of the target. What is red behind others is
doubted and no more; somebody is given back only for what was red with nobody else to doubt (`train_decisions`).

What a model has made waits, once it is green, for its **review** (`reviewing`, without a slot at the gate). It lands
with an **approval** alone: a reviewer's, bound to the diff that was checked, or a person's, bound to the candidate
(`review_state`). Without one no landing can be journaled. A candidate that had been given up and is approved then
waits for its lock, and goes on from there (`approvals`). A **wave** has the target itself checked as a whole
(`waves`); then somebody of another family than all its authors may look at what has landed since (`wave_reviews`), and
the run does not end before that was passed, by a reviewer or by a person.

What a model may use is **reserved** of the run's **budget** when an order or a review is sent, and settled at its
answer. What nobody waits for any more, as a review beside a check that is red, is fenced by the loop. An order that
was interrupted is gone on with by the next one, on the base it had. An agent's question parks its task until a person
has answered it.

Deciding is pure (`decisions` with `starts`, `reviews`, `waves`, `wave_reviews`, `locks`, `readiness`, `budget` and
`retries`; `reception`; `requests` with `approvals`; `recovery` but for its questions to the hub): plan, state and clock
in, events out. So the random-event tests ask the very functions a night's run asks. Acting is elsewhere: `journal`
(SQLite), `link` (Redis, by way of `workers`), `embedded` (the private Redis and workers of a one-machine run),
`session` (what surrounds the loop), `cli` (words in, sentences out).

Why not a database server, or Celery's result backend, as the memory: a run has one writer, and SQLite beside it
survives the loss of power without anybody to look after. What is in Redis may be gone at any moment, and is.

Why not a status column for each task: it could disagree with the events that led to it. A state that is folded
cannot.

Why not waves of tasks: a wave is as slow as its slowest task, and what waits for a quick one waits for all. A task
starts when what it needs has landed, nobody in flight writes its files, and there is a slot.

Why not Celery's chains and chords for the plan's needs: they live in the broker, know nothing of files, and end
with the first failure. Needs are settled by landings, and a landing is known here first.
"""
