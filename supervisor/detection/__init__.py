"""
What a repository seems to be checked with, by what is committed: proposals for a person, who decides. Nothing here is
ever used by a run or by the gate.
"""
