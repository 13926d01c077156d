"""Where bytes move: pools, copies, copiers, the inbox, the engine.

Nothing in here decides. An effect of the ledger says what to do, a copier does it and reports, and no module of this
package but the engine knows that there is a ledger. A recorded stream of effects makes the same copies without one.

Reading order: `memory` (blocks as bytes), `copy` (what each kind of part does), `inbox` (the one door between
threads), `copiers` (who does it, and when), `engine` (the loop). Importing the package itself brings no torch.
"""
