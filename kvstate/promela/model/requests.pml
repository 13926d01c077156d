/* What a request does, and what else may be asked of the ledger: the counterpart of the ledger's own code, as far as it
   chooses, looks up and links. Each state that changes is changed by an event, and which row answers it stands in the
   data. An operation that has to look at what came of its events is cut in two. */

/* ---- leases ---- */

inline op_open(r) {
  if
  :: ADMITS -> run_open[r] = true; run_lives[r]--; lease_current[r] = true
  :: else
  fi
}

/* Finish, abort and preempt are one path: end the load, let go of what is owned, then of what is pinned. */
inline op_close(r) {
  push(OP_closed, r);
  for (i : r * OWNED .. r * OWNED + OWNED - 1) {
    if :: pin_at[i] > 0 -> push(E_block_release, pin_at[i] - 1) :: else fi
  }
  for (i : r * OWNED .. r * OWNED + OWNED - 1) {
    if :: own_at[i] > 0 -> push(E_block_release, own_at[i] - 1) :: else fi
  }
#if STEPS
  push(OP_hand_over, r);
#endif
#if N_LOAD
  if
  :: run_load[r] > 0 ->
     if
     :: takes_load_abort((run_load[r] - 1)) -> push(OP_arm_lapse, run_load[r] - 1); push(E_load_abort, run_load[r] - 1)
     :: else
     fi
  :: else
  fi
#endif
}

#if N_LOAD
inline op_arm_lapse(x) { arm(GRACE, E_load_lapse, x) }
#endif

inline op_closed(r) {
  run_open[r] = false; run_at[r] = 0; run_load[r] = 0; lease_current[r] = false; n_own[r] = 0; n_pin[r] = 0;
  for (i : r * OWNED .. r * OWNED + OWNED - 1) { own_at[i] = 0; pin_at[i] = 0 }
  for (i : r * LINES .. r * LINES + LINES - 1) { run_ref[i] = 0; hit_at[i] = 0 }
#if STEPS
  for (i : 0 .. LINES - 1) { handing[i] = 0 }
  for (i : 0 .. N_PART - 1) {
    if :: part_lease[i] == r + 1 -> part_lease[i] = 0 :: else fi
  }
#endif
}

/* ---- lookup ---- */

/* The longest prefix that is a hit, each key in its highest tier; worth waiting while a load brings the next key. */
inline op_lookup(r) {
  waits = false;
  i = 0;
  do
  :: i < PLACES(r) && lease_current[r] && !waits ->
     wanted = PROMPT(r, i);
     if
     :: takes_key_hit(wanted) -> find(wanted); i++
     :: else ->
        if
        :: loading[wanted] > 0 ->
           if :: pending[wanted] == 0 -> pending[wanted] = 1 :: else fi;
           if :: pending[wanted] - 1 < PENDING_FOR -> waits = true :: else fi;
           break
        :: else ->
           if
           :: takes_key_hit((KEYS + wanted)) -> find(KEYS + wanted); i++
           :: else -> break
           fi
        fi
     fi
  :: else -> break
  od;
  if
  :: waits -> n_found = 0
  :: else ->
     run_at[r]++;
     for (i : 1 .. n_found) {
       wanted = found[n_found - i];
       push(E_block_share, key_block[wanted] - 1);
       hit_at[r * LINES + n_found - i] = key_block[wanted]
     }
     for (i : 0 .. n_found - 1) {
       wanted = found[i];
       if
       :: wanted < KEYS ->
          own_at[r * OWNED + n_own[r]] = key_block[wanted]; n_own[r]++;
          run_ref[r * LINES + i] = key_block[wanted]
       :: else ->
          pin_at[r * OWNED + n_pin[r]] = key_block[wanted]; n_pin[r]++
       fi
     }
     push_found(E_key_hit, false)
  fi
}

/* ---- blocks ---- */

/* Find so many blocks of a pool to evict, the one that was released longest ago first; `enough` if they will do. */
inline find_victims(pool, count) {
  for (i : pool_base(pool) .. pool_base(pool) + n_cached[pool] - 1) {
    if
    :: n_free[pool] + n_found < (count) && takes_block_evict((cached_at[i] - 1)) -> find(cached_at[i] - 1)
    :: else
    fi
  }
  enough = n_free[pool] + n_found >= (count)
}

/* Take a block off the free list; what it is given to finds it empty, and nobody's copy may be under way in it. */
inline take_free(pool) {
  n_free[pool]--;
  taken = free_at[pool_base(pool) + n_free[pool]] - 1;
  free_at[pool_base(pool) + n_free[pool]] = 0;
  for (h : 0 .. N_PART - 1) {
    L3_no_reuse = !(part_out[h] > 0 && part_touches(h, taken));
    assert(L3_no_reuse)
  }
#if STEPS
  no_step_on(taken)
#endif
}

inline op_allocate(r) {
  missing = 0;
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) { missing = missing + (run_ref[i] == 0 -> 1 : 0) }
  if
  :: missing == 0 -> run_at[r]++
  :: else ->
     find_victims(0, missing);
     if
     :: enough -> push(OP_allocated, r); push_found(E_block_evict, false)
     :: else -> n_found = 0
     fi
  fi
}

inline op_allocated(r) {
  run_at[r]++;
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) {
    if
    :: run_ref[i] == 0 ->
       take_free(0);
       run_ref[i] = taken + 1;
       own_at[r * OWNED + n_own[r]] = taken + 1; n_own[r]++;
       find(taken)
    :: else
    fi
  }
  push_found(E_block_reserve, false)
}

/* Compute what is missing, in a step that is over at once, and seal it. */
inline op_compute(r) {
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) {
    if
    :: run_ref[i] > 0 && block_state[run_ref[i] - 1] == S_block_open ->
       block_content[run_ref[i] - 1] = PROMPT(r, (i - r * LINES)) + 1
    :: else
    fi
  }
  op_seal(r)
}

/* Seal what is open, and give it its keys. */
inline op_seal(r) {
  run_at[r]++;
  for (i : r * LINES + 1 .. r * LINES + PLACES(r)) {
    /* from the last place to the first, since what is pushed first is done last */
    k = r * LINES + r * LINES + PLACES(r) - i;
    if
    :: run_ref[k] > 0 && block_state[run_ref[k] - 1] == S_block_open && lease_current[r] ->
       publish_later(run_ref[k] - 1, PROMPT(r, (k - r * LINES)))
    :: else
    fi
  }
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) {
    if :: run_ref[i] > 0 && block_state[run_ref[i] - 1] == S_block_open -> find(run_ref[i] - 1) :: else fi
  }
  push_found(E_block_seal, false)
}

/* Give an active block its key; it stays private if another block has the key. */
inline op_publish(x) {
  if
  :: takes_key_offer((x / BLOCKS)) ->
     key_block[x / BLOCKS] = x % BLOCKS + 1;
     push(E_block_publish, x % BLOCKS); push(E_key_offer, x / BLOCKS)
  :: else
  fi
}

/* ---- the whole ---- */

/* A new epoch: each key is asked to go, by pool and block, and each job to end. */
inline op_reset(x) {
  resets_left--;
  for (i : 0 .. REQUESTS - 1) { lease_current[i] = false }
  for (i : 0 .. KEYS - 1) { loading[i] = 0; pending[i] = 0 }
#if N_TRANSFER
  for (i : 0 .. N_TRANSFER - 1) { transfer_current[i] = false }
#endif
  call_jobs_off();
  for (i : 0 .. KEYS_ALL - 1) {
    if :: key_block[i] == 0 -> push_asking(E_key_reset, i) :: else fi
  }
  for (i : 1 .. BLOCKS) {
    for (j : 0 .. KEYS_ALL - 1) {
      if :: key_block[j] == BLOCKS - i + 1 -> push_asking(E_key_reset, j) :: else fi
    }
  }
}

#if N_SERVICE
inline op_drain(x) {
  drains_left--;
  if
  :: takes_service_drain(0) -> call_jobs_off(); push(E_service_drain, 0)
  :: else
  fi
}
#endif

inline call_jobs_off() {
#if N_OFFLOAD
  for (i : 1 .. N_OFFLOAD) {
    if :: offload_state[N_OFFLOAD - i] > 0 -> push_asking(E_offload_cancel, N_OFFLOAD - i) :: else fi
  }
#else
  skip
#endif
}
