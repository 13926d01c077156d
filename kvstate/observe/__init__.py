"""What operators see of a runtime: metrics, a log, and the record of a run as a trace to look at.

`counts` (what is counted, in the thread of the loop), `metrics` (the same for Prometheus, in any thread), `log` (events
that matter, for the standard `logging`), `chrome` (a record as a file for Perfetto or chrome://tracing). What listens
to an engine (`kvstate.trace.observer`) changes nothing in it. Nothing here brings torch, and only `metrics` wants
`prometheus_client`.
"""
