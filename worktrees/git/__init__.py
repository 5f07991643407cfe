"""The door to git, and safe access to files that agents may be changing."""
