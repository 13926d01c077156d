"""Where blocks rest outside of this process: objects that say what they are, and a folder that keeps them.

`sealed` puts a header before the bytes of a block and takes it off again: whose the bytes are, under which key, how
many, and what they sum to. `folder` keeps such objects as files that survive the death of the process at any instant.
Nothing here knows of a ledger, a part or a pool.
"""
