/* What must be true whenever an input is over. Each law is a flag of its own, by whose name a violation is reported. */

inline laws() {
  for (j : 0 .. BLOCKS - 1) {
    owners = 0; readers = 0; writers = 0; given_up = 0;
    for (i : 0 .. REQUESTS * OWNED - 1) {
      owners = owners + (own_at[i] == j + 1 -> 1 : 0) + (pin_at[i] == j + 1 -> 1 : 0)
    }
#if N_OFFLOAD
    for (i : 0 .. N_OFFLOAD * LINES - 1) {
      owners = owners + (offload_dst[i] == j + 1 -> 1 : 0);
      readers = readers + (offload_src[i] == j + 1 -> 1 : 0)
    }
#endif
    for (i : 0 .. N_PART - 1) {
      L3_no_reuse = !(part_out[i] > 0 && part_touches(i, j) && block_state[j] == S_block_free);
      assert(L3_no_reuse);
      if
      :: part_state[i] == S_part_flying || part_state[i] == S_part_lost ->
         touches = (part_source[i] == j + 1 -> 1 : 0) + (part_checked[i] == j + 1 -> 1 : 0);
#if STEPS
         for (h : i * LINES .. i * LINES + LINES - 1) { touches = touches + (part_held[h] == j + 1 -> 1 : 0) }
#endif
         readers = readers + touches;
         writers = writers + (part_fills[i] == j + 1 -> 1 : 0);
         touches = touches + (part_fills[i] == j + 1 -> 1 : 0);
         given_up = given_up + (part_state[i] == S_part_lost -> touches : 0)
      :: else
      fi
    }
#if STEPS
    if :: block_state[j] == S_block_free -> no_step_on(j) :: else fi;
#endif
    L8_owners = block_owners[j] == owners; assert(L8_owners);
    L8_readers = block_readers[j] == readers; assert(L8_readers);
    L8_writers = block_writers[j] == writers; assert(L8_writers);
    L8_lost = block_lost[j] == given_up; assert(L8_lost);
    filled = false;
#if N_OFFLOAD
    for (i : 0 .. N_OFFLOAD * LINES - 1) { filled = filled || offload_dst[i] == j + 1 }
#endif
#if N_TRANSFER
    for (i : 0 .. N_TRANSFER * LINES - 1) { filled = filled || transfer_dst[i] == j + 1 && awaited((i / LINES)) }
#endif
    L5_loading_named = (block_state[j] == S_block_loading) == filled; assert(L5_loading_named);
    named = false;
    for (i : 0 .. KEYS_ALL - 1) { named = named || key_names(i, j) }
    L9_named = (block_published[j] != 0) == named; assert(L9_named)
  }
  for (j : 0 .. KEYS_ALL - 1) {
    if
    :: key_state[j] == S_key_ready || key_state[j] == S_key_cooling ->
       L9_named = key_block[j] > 0; assert(L9_named);
       L9_bytes = block_content[key_block[j] - 1] == key_content(j) || block_content[key_block[j] - 1] == JUNK;
#if STEPS
       /* Or a step under way brings them. */
       for (h : 0 .. N_PART * LINES - 1) {
         L9_bytes = L9_bytes || part_writes[h] == key_block[j] && part_content[h] == key_content(j)
       }
#endif
       assert(L9_bytes)
    :: else
    fi
  }
  all_stopped()
}

/* What a job or batch waits for is what flies for it; what flies has an owner. */
inline all_stopped() {
  for (j : 0 .. N_PART - 1) {
    L4_no_orphan = !(part_state[j] == S_part_flying && part_owner[j] == 0 && part_kind[j] != STEP);
    assert(L4_no_orphan)
  }
#if N_OFFLOAD
  for (j : 0 .. N_OFFLOAD - 1) {
    touches = 0;
    for (i : 0 .. N_PART - 1) {
      touches = touches + (part_state[i] == S_part_flying && part_owner[i] == j + 1 -> 1 : 0)
    }
    L4_left = offload_left[j] == touches; assert(L4_left)
  }
#endif
#if N_TRANSFER
  for (j : 0 .. N_TRANSFER - 1) {
    touches = 0;
    for (i : 0 .. N_PART - 1) {
      touches = touches + (part_state[i] == S_part_flying && part_owner[i] == j + N_OFFLOAD + 1 -> 1 : 0)
    }
    L4_left = transfer_left[j] == touches; assert(L4_left)
  }
#endif
}
