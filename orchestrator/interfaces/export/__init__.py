"""
Figures and traces of all runs, in the forms that other programs collect: Prometheus and OpenTelemetry.

Both are folded from the journals, never measured beside them. So they agree with the reports, cover what happened
while no collector listened, and are the same when they are made again.
"""
