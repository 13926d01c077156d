/* What starts a copy, and what calls it off: loads and jobs. It is the counterpart of code, as `requests.pml` is. */

/* ---- loads ---- */

#if N_LOAD
inline op_load(r) {
  run_at[r]++;
  missing = 0;
  for (i : r * LINES .. r * LINES + LINES - 1) {
    if
    :: hit_at[i] > 0 && pool_of(hit_at[i] - 1) == 1 && ADMITS -> add_line(r)
    :: else
    fi;
    hit_at[i] = 0
  }
  if
  :: missing > 0 ->
     run_load[r] = n_load + 1;
     born_load(n_load);
     load_run[n_load] = r + 1;
     load_batches[n_load] = (missing + BATCH - 1) / BATCH;
     arm(DEADLINE, E_load_deadline, n_load);
     arm(DEADLINE + GRACE, E_load_lapse, n_load);
     push(E_load_start, n_load);
     push_found(E_block_claim, false);
     n_load++;
     n_transfer = n_transfer + load_batches[n_load - 1]
  :: else
  fi
}

/* Line `i` of the hit is one of the load: its batch is begun with its first line. */
inline add_line(r) {
  j = n_transfer + missing / BATCH;
  k = j * LINES + missing % BATCH;
  if
  :: missing % BATCH == 0 ->
     born_transfer(j);
     transfer_load[j] = n_load + 1; transfer_index[j] = missing / BATCH; transfer_live[j] = true;
     transfer_current[j] = lease_current[r]
  :: else
  fi;
  transfer_parts[j]++;
  transfer_src[k] = hit_at[i]; transfer_name[k] = hit_at[i]; transfer_dst[k] = run_ref[i];
  transfer_key[k] = PROMPT(r, (i - r * LINES)) + 1;
  if :: lease_current[r] && loading[transfer_key[k] - 1] == 0 -> loading[transfer_key[k] - 1] = j + 1 :: else fi;
  find(run_ref[i] - 1);
  missing++
}

inline op_cancel_load(x) {
  cancels_left--;
  if
  :: takes_load_abort(x) -> push(OP_arm_lapse, x); push(E_load_deadline, x)
  :: else
  fi
}
#endif

/* ---- jobs ---- */

#if N_OFFLOAD
/* Store every block of the request that has a key of its own which is not stored below, as far as there is room. */
inline op_store(r) {
  run_at[r]++;
  missing = 0;
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) {
    if :: run_ref[i] > 0 && lease_current[r] && ADMITS -> note_storable(run_ref[i] - 1) :: else fi
  }
  find_victims(1, missing);
  missing = (enough -> missing : n_free[1] + n_found);
  for (i : n_offload * LINES + missing .. n_offload * LINES + LINES - 1) { offload_src[i] = 0; offload_key[i] = 0 }
  if
  :: missing > 0 ->
     born_offload(n_offload);
     offload_parts[n_offload] = missing; offload_queued[n_offload] = true;
     push(OP_accepted, n_offload); push_found(E_block_evict, false);
     n_offload++
  :: else -> n_found = 0
  fi
}

inline note_storable(b) {
  for (k : 0 .. KEYS - 1) {
    if
    :: key_block[k] == b + 1 && takes_key_begin((KEYS + k)) && takes_block_store((b)) ->
       offload_src[n_offload * LINES + missing] = b + 1;
       offload_key[n_offload * LINES + missing] = KEYS + k + 1;
       missing++
    :: else
    fi
  }
}

inline op_accepted(x) {
  push(OP_start_jobs, 0);
  arm(DEADLINE, E_offload_deadline, x);
#if STEPS
  for (i : 0 .. N_PART - 1) {
    if :: part_kind[i] == STEP -> offload_after[x] = i + 1 :: else fi
  }
#endif
  for (i : x * LINES .. x * LINES + offload_parts[x] - 1) {
    take_free(1);
    offload_dst[i] = taken + 1;
    key_writer[offload_key[i] - 1] = x + 1;
    push(E_block_claim, taken); push(E_block_store, offload_src[i] - 1); push(E_key_begin, offload_key[i] - 1);
    push(E_block_reserve, taken)
  }
}

inline op_cancel_job(x) {
  cancels_left--;
  push_asking(E_offload_cancel, x)
}
#endif

inline op_start_jobs(x) {
#if N_OFFLOAD
  missing = 0;
  for (i : 0 .. N_OFFLOAD - 1) {
    if
    :: offload_state[i] > 0 && !offload_queued[i] -> missing++
    :: offload_queued[i] -> find(i)
    :: else
    fi
  }
  if
  :: n_found > 0 && missing < JOBS ->
     offload_queued[found[0]] = false;
     push(OP_start_jobs, 0); push(E_offload_start, found[0])
  :: else
  fi;
  n_found = 0
#else
  skip
#endif
}
