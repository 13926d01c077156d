"""`KVRuntime`s that hand blocks to each other."""
