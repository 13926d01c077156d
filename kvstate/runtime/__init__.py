"""Where bytes move: pools, copies, copiers, the inbox, the engine, workers; and `kv`, which an engine embeds.

Nothing in here decides. An effect of the ledger says what to do, a copier does it and reports, and no module of this
package but the engine, and what is built on it (`kv`), knows that there is a ledger. A recorded stream of effects makes
the same copies without one.

Reading order: `memory` (blocks as bytes), `copy` (what each kind of part does), `inbox` (the one door between
threads), `copiers` (who does it, and when), `dispatcher` (one rank's end), `engine` (the loop), `worker` (one rank's
end in another process), `processes` (workers of ours), `kv` (all of it behind one object). Importing the package itself
brings no torch.
"""
