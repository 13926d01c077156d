"""Faults planted in the product, one at a time, to see that something notices each.

A *mutant* is the spec with one fault in it (`mutants`), or the code with one (`code`). A *rung* is one kind of check
that may kill it (`rungs`); they are tried from the cheapest to the dearest. What is told of a mutant that nothing kills
is in `verdict`. A check that never fails on anything proves nothing, and here each has to.
"""
