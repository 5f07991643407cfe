"""
The review of a composed diff by a model of another family than its author's.

`run_review` answers a **review request**: it composes as the gate does, takes the **difference** to the target
(`difference`), and seats **reviewers** (`panel`): models of the host's table, or scripts that a person wrote, without
the author's families, which are taken out before any is asked. Each has a **conversation** of its own
(`conversation`) on a checkout of the composed tree, with tools that look and change nothing. What it is told is its
**brief** (`brief`); what others wrote is set apart in it by a mark that they could not know (`quoting`). It ends with a
**verdict** (`form`) that counts only where enough was **read** before (`reading`). Several reviewers hold a **debate**
(`debate`). What has landed is reviewed as a whole by the same road, on the target's own commits (`wave`). A lead's
`synthesis` is reviewed against the results that must bear it, in one call without a checkout.

Where the plan says so, the card has the changed files themselves, which count as read, and the review is one call. Such
a call may go by a vendor's batch lane: its request ends with the batch's id, and is made again later.

Nothing passes by absence. A verdict without reading, a pass beside a finding that must be mended, a fail without one,
words in place of the tool: none of them counts. The reviewer is told once what it lacks. The second time the review is
`void`, and a person is asked. What a reviewer found is held against the change by a table over category and severity
(`supervisor.findings`), never by how it is worded.

Why not the author's conversation as well: a reviewer that has read how a change came about judges the argument and not
the code. Why not its summary without quotes: a claim that is believed once is in every later sentence.

Why not a grep, or the diff, for reading: both show lines without what stands around them, and the diff is in the first
message anyway. Why not what the form says was read: it is a claim. The harness counts what its tools showed, before the
turn that gave the verdict.

Why not the author's family as the last resort: it shares the author's blind spots, and a review by it looks just like
one by another. Why not a majority of reviewers: two who are blind to the same thing outvote the one who sees it.

What the harness cannot prevent: a reviewer that reads everything and then believes what the change says of itself.
Scans look for texts that speak to reviewers; a second family may not believe them.
"""
