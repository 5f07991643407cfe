"""
Forgepool for those who do not type its commands: browsers, editors, agents, and monitoring.

Each room here is one interface. It shows what `reports` folds from the journals, and acts by the words of `cli`. Most
need an extra, and all are imported only when their command is chosen.
"""
