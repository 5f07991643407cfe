"""Known programs: their options, wrappers and effects."""
