"""The machines as they run: pure, single-threaded, standard library only (`columns` uses NumPy where there is one).

`tables` is generated from `spec/` and is what runs; `step` is the reference interpreter that the tables are held
against; `interpreted` runs a machine that no code was generated for; `table` is what all of them can do. Nothing is
imported here, so that `import kvstate.machines` costs nothing and brings no parser, no NumPy and no prover.
"""
