"""The hub repository, mirrors of it, and pushes to it."""
