/* The relations of coupling.toml, each as the list `found` of records, in its order.

   A link is a number one higher than what it leads to, and 0 leads nowhere. Where the ledger goes from the last to the
   first, the loop runs backwards. */

inline rel_part_reads(x) {
  if :: part_source[x] > 0 -> find(part_source[x] - 1) :: else fi;
  if :: part_checked[x] > 0 -> find(part_checked[x] - 1) :: else fi;
#if STEPS
  find_links(part_held, x)
#endif
}

inline rel_part_writes(x) {
  if :: part_fills[x] > 0 -> find(part_fills[x] - 1) :: else fi
}

inline rel_part_adopted(x) {
#if STEPS
  find_links(handing, 0)
#else
  skip
#endif
}

inline rel_part_key(x) { find_key_of(x) }

/* The key that names the block which the part's key named when the part began, in the same life. */
inline find_key_of(p) {
  for (h : 0 .. KEYS_ALL - 1) {
    if :: part_name[p] > 0 && key_block[h] == part_name[p] -> find(h) :: else fi
  }
}

inline rel_key_block(x) {
  if :: key_block[x] > 0 -> find(key_block[x] - 1) :: else fi
}

inline rel_block_key(x) {
  for (h : 0 .. KEYS_ALL - 1) {
    if :: key_block[h] == x + 1 -> find(h) :: else fi
  }
}

#if N_OFFLOAD
inline rel_part_job(x) {
  if :: part_owner[x] > 0 && part_owner[x] <= N_OFFLOAD -> find(part_owner[x] - 1) :: else fi
}

inline rel_job_dsts(x) { find_links_backwards(offload_dst, x) }
inline rel_job_srcs(x) { find_links_backwards(offload_src, x) }

inline rel_job_keys(x) {
  for (h : x * LINES .. x * LINES + LINES - 1) {
    if
    :: offload_key[h] > 0 ->
       if :: key_writer[offload_key[h] - 1] == x + 1 -> find(offload_key[h] - 1) :: else fi
    :: else
    fi
  }
}

inline rel_job_flying(x) { find_flying(x + 1) }
#endif

#if N_TRANSFER
inline rel_part_batch(x) {
  if :: part_owner[x] > N_OFFLOAD -> find(part_owner[x] - N_OFFLOAD - 1) :: else fi
}

inline rel_batch_dsts(x) { find_links_backwards(transfer_dst, x) }
inline rel_batch_srcs(x) { find_links_backwards(transfer_src, x) }
inline rel_batch_flying(x) { find_flying(x + N_OFFLOAD + 1) }

/* A part has one line and the keys of a batch are distinct, so what one part is about no other part of it is about. */
inline rel_batch_bad_keys(x) {
  for (g : 0 .. N_PART - 1) {
    if :: of_batch(g, x) && part_state[g] == S_part_broken -> find_key_of(g) :: else fi
  }
}

inline rel_batch_lost_keys(x) {
  for (g : 0 .. N_PART - 1) {
    if :: of_batch(g, x) && part_lost(g) -> find_key_of(g) :: else fi
  }
}

inline rel_batch_slow_keys(x) {
  blameless = true;
  for (g : 0 .. N_PART - 1) {
    if
    :: of_batch(g, x) && part_state[g] != S_part_landed && part_state[g] != S_part_stopped -> blameless = false
    :: else
    fi
  }
  for (g : 0 .. N_PART - 1) {
    if
    :: of_batch(g, x) && blameless && part_state[g] == S_part_stopped -> find_key_of(g)
    :: of_batch(g, x) && !blameless && (part_lost(g) || part_state[g] == S_part_flying) -> find_key_of(g)
    :: else
    fi
  }
}

inline rel_batch_load(x) { find(transfer_load[x] - 1) }

inline rel_load_planned(x) {
  for (h : 0 .. N_TRANSFER - 1) {
    if :: transfer_load[h] == x + 1 -> find(h) :: else fi
  }
}

inline rel_load_batches(x) {
  for (h : 1 .. N_TRANSFER) {
    if :: transfer_load[N_TRANSFER - h] == x + 1 && transfer_live[N_TRANSFER - h] -> find(N_TRANSFER - h) :: else fi
  }
}

inline rel_load_behind(x) {
  for (h : 1 .. N_TRANSFER) {
    if
    :: transfer_load[N_TRANSFER - h] == x + 1 && transfer_live[N_TRANSFER - h] && load_hole[x] > 0 &&
       transfer_index[N_TRANSFER - h] > load_hole[x] - 1 -> find(N_TRANSFER - h)
    :: else
    fi
  }
}

inline rel_load_next(x) {
  for (h : 0 .. N_TRANSFER - 1) {
    if :: transfer_load[h] == x + 1 && transfer_index[h] == load_turn[x] -> find(h) :: else fi
  }
}
#endif

inline find_flying(owner) {
  for (h : 0 .. N_PART - 1) {
    if :: part_state[h] == S_part_flying && part_owner[h] == owner -> find(h) :: else fi
  }
}
