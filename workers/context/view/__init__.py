"""The view: the part of a transcript that a model is sent."""
