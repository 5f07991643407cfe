"""
A plan on a virtual clock: the decisions of a real run, with generated durations, costs and outcomes.

`world` draws the outcomes, `run` plays one run, `bounds` finds what it waited for, and `forecast` sums up many runs.
`forecast_text` and `gantt` show the forecast. The simulator of merge queues is a benchmark: `benchmarks/queue/`.
"""
