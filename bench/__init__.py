"""What the tables, the ledger and copies cost, as ratios that one noisy machine can measure: `make bench`.

Every figure that has a target is the ratio of two things timed by turns in the same run, with the garbage collector on
as it is in production.
"""
