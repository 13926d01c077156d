/* The acts of coupling.toml, by machine and name: what the ledger itself does when a row has an effect.

   What an act only says (errors, verdicts, orders to a worker that nothing waits for) is left out; what it says twice,
   or too soon, is looked at. */

/* ---- parts ---- */

inline act_part_count_stale(x, effect) { skip }
inline act_part_keep_adopted(x, effect) {
#if STEPS
  j = x * LINES;
  for (h : 0 .. LINES - 1) {
    if
    :: handing[h] > 0 ->
       do
       :: part_held[j] > 0 -> j++
       :: else -> break
       od;
       part_held[j] = handing[h]
    :: else
    fi
  }
#else
  skip
#endif
}
inline act_part_note_failures(x, effect) { skip }
inline act_part_undo_late(x, effect) { skip }
inline act_part_hear_seek(x, effect) { skip }

/* The owner is over, or starts anew: its parts answer for themselves from here on. */
inline let_go(owner) {
  for (h : 0 .. N_PART - 1) {
    if :: part_state[h] > 0 && part_owner[h] == owner -> part_owner[h] = 0 :: else fi
  }
}

/* A new part, not launched yet; its number is `made`. */
inline mint(kind, owner, source, checked, fills, named, key, by_worker) {
  made = n_part;
  n_part++;
  born_part(made);
  part_kind[made] = kind;
  part_owner[made] = owner;
  part_source[made] = source;
  part_checked[made] = checked;
  part_fills[made] = fills;
  part_name[made] = named;
  part_key[made] = key_content(key - 1);
  if
  :: by_worker -> part_out[made] = SENT
  :: else -> part_once[made] = true
  fi;
  find(made)
}

/* Those that were just minted are launched, in their order. */
inline launch_found() { push_found(E_part_launch, false) }

/* ---- time ---- */

/* Fire the event so much later, after all that is due at the same moment. */
inline arm(later, event, x) {
  h = n_timer;
  do
  :: h > 0 ->
     if
     :: timer_in[h - 1] > (later) ->
        timer_in[h] = timer_in[h - 1]; timer_event[h] = timer_event[h - 1]; timer_who[h] = timer_who[h - 1]; h--
     :: else -> break
     fi
  :: else -> break
  od;
  timer_in[h] = later; timer_event[h] = event; timer_who[h] = x;
  n_timer++
}

/* Take the timer at this place out of the list. */
inline disarm(place) {
  n_timer--;
  for (i : place .. N_TIMER - 2) {
    timer_in[i] = timer_in[i + 1]; timer_event[i] = timer_event[i + 1]; timer_who[i] = timer_who[i + 1]
  }
  timer_in[N_TIMER - 1] = 0; timer_event[N_TIMER - 1] = 0; timer_who[N_TIMER - 1] = 0
}

inline act_key_arm_warm(x, effect) { arm(COOL, E_key_warm, x) }

#if N_OFFLOAD
/* ---- jobs ---- */

inline act_offload_launch_parts(x, effect) {
  let_go(x + 1);
  for (j : x * LINES .. x * LINES + offload_parts[x] - 1) {
    mint(STORE, x + 1, offload_src[j], 0, offload_dst[j], 0, offload_key[j], true);
#if STEPS
    part_after[made] = offload_after[x]
#endif
  }
  launch_found()
}

inline act_offload_launch_persist(x, effect) {
  for (j : x * LINES .. x * LINES + offload_parts[x] - 1) {
    mint(PERSIST, x + 1, offload_dst[j], 0, 0, 0, offload_key[j], DURABLE)
  }
  launch_found()
}

inline act_offload_arm_retry(x, effect) { arm(RETRY << (offload_attempt[x] - 1), E_offload_retry_due, x) }

inline act_offload_ask_cancel(x, effect) {
  ask_parts(x + 1);
  arm(GRACE, E_offload_lapse, x)
}

inline act_offload_undo_persist(x, effect) { skip }

inline act_offload_link_keys(x, effect) {
  for (j : x * LINES .. x * LINES + LINES - 1) {
    if
    :: offload_key[j] > 0 ->
       L5_filled = offload_dst[j] > 0 && block_content[offload_dst[j] - 1] == key_content(offload_key[j] - 1);
       assert(L5_filled);
       key_block[offload_key[j] - 1] = offload_dst[j]
    :: else
    fi
  }
}

inline act_offload_forget_srcs(x, effect) { forget(offload_src, x) }
inline act_offload_forget_dsts(x, effect) { forget(offload_dst, x) }

inline act_offload_tell_job(x, effect) {
  L1_one_verdict = !doomed_offload[x];
  assert(L1_one_verdict);
  doomed_offload[x] = true;
  for (j : 0 .. KEYS_ALL - 1) {
    if :: key_writer[j] == x + 1 -> key_writer[j] = 0 :: else fi
  }
  let_go(x + 1)
}
#endif

/* A part that is asked to stop may say that it did. */
inline ask_parts(owner) {
  for (h : 0 .. N_PART - 1) {
    if
    :: part_state[h] == S_part_flying && part_owner[h] == owner && part_out[h] > 0 && MAY_STOP -> part_asked[h] = true
    :: else
    fi
  }
}

#if N_TRANSFER
/* ---- batches ---- */

inline act_transfer_launch_parts(x, effect) {
  let_go(x + N_OFFLOAD + 1);
  for (j : x * LINES .. x * LINES + transfer_parts[x] - 1) {
    mint(FETCH, x + N_OFFLOAD + 1, transfer_src[j], 0, transfer_dst[j], transfer_name[j], transfer_key[j], true)
  }
  launch_found()
}

inline act_transfer_launch_verify(x, effect) {
  for (j : x * LINES .. x * LINES + transfer_parts[x] - 1) {
    mint(VERIFY, x + N_OFFLOAD + 1, transfer_src[j], transfer_dst[j], 0, transfer_name[j], transfer_key[j], VERIFIED)
  }
  launch_found()
}

inline act_transfer_arm_retry(x, effect) { arm(RETRY << (transfer_attempt[x] - 1), E_transfer_retry_due, x) }
inline act_transfer_ask_cancel(x, effect) { ask_parts(x + N_OFFLOAD + 1) }

/* The blocks get their keys, unless the cache was reset meanwhile; another block may have the key. */
inline act_transfer_name_blocks(x, effect) {
  for (j : 1 .. LINES) {
    if
    :: transfer_current[x] && transfer_dst[x * LINES + LINES - j] > 0 ->
       publish_later(transfer_dst[x * LINES + LINES - j] - 1, device_key(transfer_key[x * LINES + LINES - j] - 1))
    :: else
    fi
  }
}

inline act_transfer_strike_left(x, effect) {
  for (j : x * LINES .. x * LINES + LINES - 1) {
    if
    :: transfer_dst[j] > 0 ->
       strike(own_at, n_own, load_run[transfer_load[x] - 1] - 1, transfer_dst[j]);
       transfer_leaves[j] = transfer_dst[j]; transfer_dst[j] = 0
    :: else
    fi
  }
}

inline act_transfer_strike_unpinned(x, effect) {
  for (j : x * LINES .. x * LINES + LINES - 1) {
    if
    :: transfer_src[j] > 0 ->
       strike(pin_at, n_pin, load_run[transfer_load[x] - 1] - 1, transfer_src[j]);
       transfer_src[j] = 0
    :: else
    fi
  }
}

inline act_transfer_advance_turn(x, effect) {
  load_turn[transfer_load[x] - 1]++;
  unlist(x)
}

inline act_transfer_note_hole(x, effect) {
  if
  :: load_hole[transfer_load[x] - 1] == 0 || load_hole[transfer_load[x] - 1] - 1 > transfer_index[x] ->
     load_hole[transfer_load[x] - 1] = transfer_index[x] + 1
  :: else
  fi;
  for (j : x * LINES .. x * LINES + LINES - 1) {
    L5_nothing = transfer_dst[j] == 0 || block_state[transfer_dst[j] - 1] != S_block_active;
    assert(L5_nothing)
  }
  unlist(x)
}

inline act_transfer_note_over(x, effect) {
  L1_one_settlement = transfer_live[x];
  assert(L1_one_settlement);
  transfer_live[x] = false;
  unlist(x);
  let_go(x + N_OFFLOAD + 1)
}

/* Nobody waits for these keys any more. */
inline unlist(x) {
  for (h : 0 .. KEYS - 1) {
    if :: loading[h] == x + 1 -> loading[h] = 0; pending[h] = 0 :: else fi
  }
}

/* Of blocks that are the engine's own; there are none here. */
inline act_transfer_forget_filling(x, effect) { skip }

/* ---- loads ---- */

inline act_load_tell_load(x, effect) {
  L1_one_verdict = !load_told[x];
  assert(L1_one_verdict);
  load_told[x] = true;
  for (j : 0 .. N_TRANSFER - 1) {
    if
    :: transfer_load[j] == x + 1 ->
       unlist(j);
       if :: effect != F_load_tell_aborted -> hear_batch(j, x) :: else fi
    :: else
    fi
  }
  for (j : 0 .. REQUESTS - 1) {
    if :: run_load[j] == x + 1 -> run_load[j] = 0 :: else fi
  }
}

/* What the verdict says of a batch: that its bytes are there, or which blocks the request has lost to it. */
inline hear_batch(b, x) {
  for (k : b * LINES .. b * LINES + LINES - 1) {
    if
    :: transfer_index[b] < load_turn[x] && transfer_key[k] > 0 ->
       L5_proceed = transfer_dst[k] > 0 && block_content[transfer_dst[k] - 1] == key_content(transfer_key[k] - 1);
       assert(L5_proceed)
    :: else
    fi;
    for (h : 0 .. REQUESTS * LINES - 1) {
      if
      :: transfer_leaves[k] > 0 && run_ref[h] == transfer_leaves[k] && run_load[h / LINES] == x + 1 -> run_ref[h] = 0
      :: else
      fi
    }
  }
}

inline act_load_tell_settled(x, effect) {
  L1_one_settlement = load_told[x] && !doomed_load[x];
  assert(L1_one_settlement);
  doomed_load[x] = true
}
#endif
