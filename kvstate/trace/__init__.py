"""Records of runs, read back: held against the spec row by row, and taken apart when something went wrong.

A record is what `kvstate replay --trace-out` writes: a line of JSON for each input, row, effect and verdict. Nothing
here runs a ledger; records come from elsewhere, and the spec that they are held against may be another one.
"""
