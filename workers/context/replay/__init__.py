"""
Recorded runs put through the profiles: what each would have cost, and what the agent would have missed.

Words: a **recording** is one conversation that happened, whoever wrote it down; a **reader** brings one format into
that form; a **need** is something a call used that an earlier result had shown; a need is **lost** where a profile's
view shows it no more; the **oracle** knows what will be needed, the **floor** is what no lossless profile goes below.

The way through: `formats` reads files into recordings (`recording`, put together by `assembly`), the profiles show
their views of them call by call, `cost` prices these as a caching provider would, `needs` tells what was lost, and
`oracle` and `comparison` say how good that is. The agent's behaviour is held fixed: it is not known what it would have
done with another view.
"""
