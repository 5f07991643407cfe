"""
A run whose target somebody keeps: it holds no train of its own, and gives its candidates to that gate.

The two share nothing but the hub. A gate that stands says so there (`refs/forgepool/gates/<target>`, with a beat). The
run gives a candidate as anybody does, by a push to `refs/forgepool/for/<target>/<run>-<task>`; the tag it pushes has a
**card** besides: what the task is, whose work it is, what it may write, and which number of the run's givings it is.
The gate answers with a blob at `refs/forgepool/<run>/told/<task>/<number>`: landed, returned with its reasons,
withdrawn, not taken in, or waiting for a person.

The run journals a giving before it pushes, and pushes again whatever it has no answer to: a gate knows by its number
what it was given before. It believes nobody that something has landed, but looks into the target's history. What it
takes back it asks for, in the same place, and waits for the answer: until then the gate may be landing it.

What a card says gives no right. It can only demand: a review, and that nothing else be changed than what it names.
Grants, waived rules and a plan's own checks are a person's word to the run, which the gate cannot tell from anybody's:
a plan that has them is refused (`standing`).

Why the answer lies among the run's refs and not the gate's: it goes when the run's refs go, and only the run knows when
nobody will ask for it any more.
"""
