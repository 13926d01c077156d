"""Where blocks rest beyond this machine: an object store that several processes, engines and hosts share.

`settings` says which store and under which promises, `bucket` asks it (deadlines, retries, conditions), `names` says
where an object lies, `staging` keeps bytes until they are put, `objects` does what parts say, and `copier` gives it
threads. The header of an object, and its sums, are those of `kvstate.runtime.tiers.sealed`.
"""
