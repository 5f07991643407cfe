"""
The policy: what an agent may do, decided before it is done.

A **rule** says what it matches (a tool, paths, a command, a network host, a variable), a **decision** (`allow`,
`audit`: carried out and pointed out in the transcript, `prompt`: a person or the plan must say yes, `deny`) and a
reason. Rules come in **layers** (`layers` tells what each may do): those that are shipped (`defaults.yaml`), a person's
`policy.yaml`, the repository's `forgepool.yaml` as the base commit has it, the plan's, the phase's. A **judgement** is
what they come to for one thing.

    a person's YAML  -> entries, document -> Rule
    a script         -> shell             -> facts -> command, place -> matching -> layers -> Judgement
    a tool's call    -> calls             -> the same
    a plan's hosts   -> network           -> Granted

Restraining and permitting are not each other's opposite here. A rule that restrains (`prompt`, `deny`) matches whatever
could amount to what it names: any spelling of an option, a word that only the shell will know, the path as it was
written and as it resolves, in any case of letters. A rule that permits matches what is surely that and nothing else.

Why not regular expressions over the command's text: they are fooled by a quote. Why not first match wins: then a
repository's file could not be laid over a person's without reading both. Why are commands that a person wrote not
judged (`agent: command`, acceptance commands, checks): they are that person's own decision. And CLI agents run their
tools themselves: the sandbox holds them, no policy sees their calls.

The policy is a guard-rail, which tells an honest agent in words what to do instead. Who means to fool it may succeed;
the sandbox is the wall.
"""
