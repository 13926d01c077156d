"""What a prover says about the data. Needs z3 (`pip install "kvstate[proof]"`), imported when a proof is asked for.

A claim made here is about the *model*: about what the files of `spec/` say, not about the code that runs them.
"""
