"""Small engines for the conformance kit to break, and one that it does not; see the README beside this."""
