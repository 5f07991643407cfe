"""The hub repository, this host's mirrors of it, and pushes to it."""
