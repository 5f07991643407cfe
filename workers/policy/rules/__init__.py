"""The things a rule names: commands, paths, hosts."""
