"""Blocks of another process: transports that pull them, the copier of one rank over a transport, and the link on which
schedulers talk.

What is agreed on between two schedulers, and when a copy counts, is not decided here: see `kvstate.peers`.
"""
