"""The conformance kit: breaks an engine's block pool and offload layer by the order of its inputs.

`memory` is what is physically true, `copier` what the engine submits its copies to, `moves` what may happen, `oracle`
what must be true after it, `play` the four together. `walks` chooses moves at random, `search` looks for a walk that
breaks a law, `shrink` makes it short, `story` tells it and writes it as a test. `hypo` lets Hypothesis choose.
"""
