/* The hardware and the clock, and the end of each input. */

/* ---- the hardware ---- */

inline op_land(p) {
  part_out[p] = LANDED;
  if
  :: part_fills[p] > 0 -> block_content[part_fills[p] - 1] = block_content[part_source[p] - 1]
  :: else
  fi
}

/* The copy is over, and this is what its worker says. */
inline op_deliver(p, event) {
  part_out[p] = 0; part_asked[p] = false; part_silent[p] = false;
  push(event, p)
}

/* What an honest worker says of a copy that landed, and of a check: that compares the bytes. */
inline op_deliver_truth(p) {
  if
  :: part_kind[p] == VERIFY && block_content[part_checked[p] - 1] != part_key[p] -> op_deliver(p, E_part_broken)
  :: else -> op_deliver(p, E_part_done)
  fi
}

/* A timeout proves nothing: the copy goes on. */
inline op_silence(p) {
  part_silent[p] = true;
  push(E_part_timeout, p)
}

/* Of a copy that is over a worker says something again. */
inline op_repeat(p, event) {
  if :: part_state[p] > 0 -> push(event, p) :: else fi
}

/* All that was sent down is proved over. */
inline op_fence(x) {
  for (i : 1 .. N_PART) {
    if
    :: part_state[N_PART - i] > 0 && part_kind[N_PART - i] != STEP && !home_part(part_state[N_PART - i]) ->
       op_deliver(N_PART - i, E_part_cancelled)
    :: else
    fi
  }
}

inline op_corrupt(x) {
  corrupt_left--;
  block_content[key_block[x] - 1] = JUNK
}

/* ---- the clock ---- */

/* The time moves to the next timer. */
inline op_tick(x) {
  passed = timer_in[0];
  for (i : 0 .. n_timer - 1) { timer_in[i] = timer_in[i] - passed }
  for (i : 0 .. KEYS - 1) {
    if
    :: pending[i] > 0 -> pending[i] = (pending[i] + passed > PENDING_FOR + 1 -> PENDING_FOR + 1 : pending[i] + passed)
    :: else
    fi
  }
  push(OP_due, 0)
}

/* What is due is fired one by one, each to its end. */
inline op_due(x) {
  if
  :: n_timer > 0 && timer_in[0] == 0 ->
     push(OP_due, 0); push(OP_conclude, 0); push(timer_event[0], timer_who[0]);
     disarm(0)
  :: else
  fi
}

/* ---- the end of an input ---- */

/* Answer what needs no worker, drop what is over, start the jobs that waited for a place. */
inline op_conclude(x) {
  for (i : 0 .. N_PART - 1) {
    if :: part_once[i] && n_found == 0 -> find(i) :: else fi
  }
  if
  :: n_found > 0 ->
     part_once[found[0]] = false;
     push(OP_conclude, 0); push(E_part_done, found[0]);
     n_found = 0
  :: else ->
     sweep();
     push(OP_start_jobs, 0)
  fi
}

inline sweep() {
  for (j : 0 .. N_PART - 1) {
    if :: part_state[j] > 0 && home_part(part_state[j]) && part_owner[j] == 0 -> step_over(j); blank_part(j) :: else fi
  }
#if N_OFFLOAD
  for (j : 0 .. N_OFFLOAD - 1) {
    if :: doomed_offload[j] -> blank_offload(j); drop_timers(FIRST_offload, LAST_offload, j) :: else fi
  }
#endif
#if N_LOAD
  for (j : 0 .. N_LOAD - 1) {
    if
    :: doomed_load[j] ->
       blank_load(j); drop_timers(FIRST_load, LAST_load, j);
       for (k : 0 .. N_TRANSFER - 1) {
         if :: transfer_load[k] == j + 1 -> blank_transfer(k); drop_timers(FIRST_transfer, LAST_transfer, k) :: else fi
       }
    :: else
    fi
  }
#endif
  for (j : 0 .. KEYS_ALL - 1) {
    if :: key_state[j] == S_key_INITIAL -> key_writer[j] = 0; drop_timers(FIRST_key, LAST_key, j) :: else fi
  }
}

/* What was to come after a step may come now. */
inline step_over(p) {
#if STEPS
  if
  :: part_kind[p] == STEP ->
     drop_timers(FIRST_part, LAST_part, p);
     for (h : 0 .. N_PART - 1) {
       if :: part_after[h] == p + 1 -> part_after[h] = 0 :: else fi
     }
#if N_OFFLOAD
     for (h : 0 .. N_OFFLOAD - 1) {
       if :: offload_after[h] == p + 1 -> offload_after[h] = 0 :: else fi
     }
#endif
  :: else
  fi
#else
  skip
#endif
}

inline drop_timers(first, last, x) {
  for (h : 1 .. N_TIMER) {
    if
    :: timer_event[N_TIMER - h] >= first && timer_event[N_TIMER - h] <= last && timer_who[N_TIMER - h] == x ->
       disarm(N_TIMER - h)
    :: else
    fi
  }
}

/* ---- what follows a row, beside its effects ---- */

/* The views of a block's states: the free list, a stack; and the order in which cached blocks are evicted. */
inline moved_block(b) {
  if
  :: moved_from != block_state[b] && block_state[b] == S_block_free ->
     block_content[b] = 0;
     free_at[pool_base(pool_of(b)) + n_free[pool_of(b)]] = b + 1; n_free[pool_of(b)]++
  :: moved_from != block_state[b] && block_state[b] == S_block_cached ->
     cached_at[pool_base(pool_of(b)) + n_cached[pool_of(b)]] = b + 1; n_cached[pool_of(b)]++
  :: else
  fi;
  if :: moved_from != block_state[b] && moved_from == S_block_cached -> not_cached(b) :: else fi
}

inline not_cached(b) {
  shifted = false;
  for (h : pool_base(pool_of(b)) .. pool_base(pool_of(b)) + n_cached[pool_of(b)] - 1) {
    if :: cached_at[h] == b + 1 -> shifted = true :: else fi;
    if
    :: shifted && h < pool_base(pool_of(b)) + n_cached[pool_of(b)] - 1 -> cached_at[h] = cached_at[h + 1]
    :: shifted && h == pool_base(pool_of(b)) + n_cached[pool_of(b)] - 1 -> cached_at[h] = 0
    :: else
    fi
  }
  n_cached[pool_of(b)]--
}

/* The block begins another life: what names it in the one before names nothing any more. */
inline new_life(b) {
  for (h : 0 .. N_PART - 1) {
    if :: part_name[h] == b + 1 -> part_name[h] = 0 :: else fi
  }
#if N_TRANSFER
  for (h : 0 .. N_TRANSFER * LINES - 1) {
    if :: transfer_name[h] == b + 1 -> transfer_name[h] = 0 :: else fi
  }
#endif
}

/* A key that is neither ready nor cooling names no block; seen to when the effects of its row have run. */
inline op_key_done(k) {
  if
  :: key_state[k] != S_key_ready && key_state[k] != S_key_cooling -> key_block[k] = 0
  :: else
  fi
}
