"""The state of a run or a queue: data, and the step that each event makes."""
