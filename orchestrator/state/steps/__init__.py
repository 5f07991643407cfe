"""The step that each event makes, by the kind of thing that it is about."""
