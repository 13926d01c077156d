"""The main job: a request trace, real or generated, through ledger and runtime with real bytes."""
