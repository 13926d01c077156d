"""A Promela model of a small scope, printed from `spec/`, for Spin to search; and the ledger's states beside it.

The explorer (`kvstate.explore`) searches the code. Here the same scope is searched a second time by another program,
from another text: every row, guard, effect and coupling is printed from the data, and what the ledger itself is
(relations, acts, requests) is written by hand in Promela. If both reach the same states, each was held against the
other.
"""
