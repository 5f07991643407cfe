"""
What a model is told about where it is and what is expected: markdown, and the order it is put in.

`blocks` gives the system prompt of a phase. First comes `invariant.md`, the same bytes for every task, phase and
repository, so that a provider's cache of it holds across all of them; then the phase's own text; last the skill's.
Nothing about a task or a repository is in here: that is the task card's (`workers/agents/briefing/task_card.py`),
which a model may trust less.
"""
