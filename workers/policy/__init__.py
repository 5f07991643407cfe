"""
The policy: what an agent may do, decided before it is done.

A **rule** matches tools, paths, commands, network hosts or variables, and has a reason and a **decision**: `allow`,
`audit` (run, and noted in the transcript), `prompt` (a person or the plan must agree) or `deny`. Rules come in
**layers**: the built-in `defaults.yaml`, a person's `policy.yaml`, `forgepool.yaml` in the base commit, the plan, the
phase. `layers` says what each layer may do. A **judgement** is the decision on one thing.

    a person's YAML  -> document  -> PolicyRule
    a script         -> shell     -> facts -> command, rule -> layers -> PolicyJudgement
    a tool's call    -> judgement -> the same
    a plan's hosts   -> network   -> Granted

A rule that restrains (`prompt`, `deny`) matches everything that could amount to what it names: any spelling of an
option, a word that only the shell will know, the path as written and as resolved, in any case of letters. A rule that
permits matches what is certainly that and nothing else.

Why not regular expressions over the command's text: a quote fools them. Why not the first match: a repository's file
could not extend a person's. Why are a person's own commands not judged (`agent: command`, acceptance commands, checks):
that person has decided. CLI agents run their tools themselves: no policy sees their calls, the sandbox holds them.

The policy is a guard-rail that tells an honest agent what to do instead. The sandbox is the wall.
"""
