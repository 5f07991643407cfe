"""
Proposals of checks for `forgepool init`, guessed from committed files. A person decides; no run and no gate uses them.
"""
