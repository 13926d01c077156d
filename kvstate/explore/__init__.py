"""Exhaustive search in small scopes: the real ledger, a world that may do anything, every order of events.

Breadth-first, so what is found broken first is found in the fewest moves. What is searched is the code, not a model of
it: `Ledger` itself takes every move. The world is a model, and what it leaves out is written in `world`.
"""
