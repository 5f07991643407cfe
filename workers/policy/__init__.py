"""
The policy: what an agent may do, decided before it is done.

A **rule** matches tools, paths, commands, network hosts or variables. It has a reason and a **decision**: `allow`,
`audit` (run, and noted in the transcript), `prompt` (a person or the plan must agree) or `deny`. Rules come in
**layers**: the built-in `defaults.yaml`, a person's `policy.yaml`, `forgepool.yaml` in the base commit, the plan, the
phase. `layers` says what each layer may do. A **judgement** is the decision on one thing.

`document` reads rules from YAML. `workers.shell` reads a script into facts, which `command` and `rule` match. `layers`
decides which rule wins, and `judgement` states the result for a command, a tool's call or a file. `network` grants
hosts.

A rule that restrains (`prompt`, `deny`) matches everything that could amount to what it names. That includes any
spelling of an option, words that only the shell will know, paths as written and as resolved, and any case of letters. A
rule that permits matches what is certainly that and nothing else.

Why not regular expressions over the command's text: a quote fools them. Why not the first match: a repository's file
could not extend a person's. Why are a person's own commands not judged (`agent: command`, acceptance commands, checks):
that person has decided. CLI agents run their tools themselves: no policy sees their calls, the sandbox holds them.

The policy is a guard-rail that tells an honest agent what to do instead. The sandbox is the wall.
"""
