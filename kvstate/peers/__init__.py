"""Two processes that hand blocks to each other: what they agree on, without a socket, a clock or a copy.

`party` is one process's end of it: it is told the time and given bytes, and gives bytes and actions. What it does is
read from `spec/peers`, as the ledger is from `spec`; `docs/handoff.md` tells the races. `words` has what goes in and
comes out, `codec` the bytes.
"""
