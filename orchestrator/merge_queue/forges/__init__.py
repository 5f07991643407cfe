"""
Clients of GitHub and GitLab: what the queue reads there, and what it reports.

A **forge** (`protocol`) holds **changes**: pull requests, merge requests. A change with the queue's label that is no
draft is **ready**; it enters the queue with its current commit and no other. The queue **reports** its verdict on a
commit as a status (`forgepool/gate`), which the forge's rules can require. `github` and `gitlab` speak the two APIs;
`api` is the HTTP below both: pages, rate limits, retries, one sentence for each failure. `codeowners` decides purely
which approvals a change needs.

Landing is not here: the queue pushes to the target, as in any hub, and the forge shows the change as merged once it
sees the commits.

Why not the forges' merge buttons? They create a new commit when pressed, which nothing has tested.

Why not webhooks? Polling needs no address that the forge can reach, loses nothing while this side is down, and costs
one request per page.
"""
