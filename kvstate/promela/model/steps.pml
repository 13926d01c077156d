/* Compute steps: what a request begins, what its lease leaves to them, and how they end. */

#if STEPS
/* A step that computes what is missing: a part that touches nothing yet, and takes over what its lease leaves. */
inline op_step(r) {
  run_at[r]++;
  missing = 0;
  for (i : r * LINES .. r * LINES + PLACES(r) - 1) {
    if
    :: run_ref[i] > 0 && block_state[run_ref[i] - 1] == S_block_open ->
       part_writes[n_part * LINES + missing] = run_ref[i];
       part_content[n_part * LINES + missing] = PROMPT(r, (i - r * LINES)) + 1;
       missing++
    :: else
    fi
  }
  if
  :: missing > 0 ->
     born_part(n_part);
     part_kind[n_part] = STEP; part_out[n_part] = SENT; part_lease[n_part] = r + 1;
     arm(STEP_FOR, E_part_timeout, n_part);
     push(E_part_launch, n_part);
     n_part++
  :: else
  fi
}

/* A lease that closes hands what a step may be touching over to the steps that it is out on. */
inline op_hand_over(r) {
  missing = 0;
  for (i : 1 .. N_PART) {
    if
    :: part_lease[N_PART - i] == r + 1 -> missing++; push(E_part_adopt, N_PART - i)
    :: else
    fi
  }
  if
  :: missing > 0 ->
     j = 0;
     for (i : r * OWNED .. r * OWNED + OWNED - 1) {
       if
       :: own_at[i] > 0 && takes_block_step_hold((own_at[i] - 1)) -> handing[j] = own_at[i]; j++
       :: else
       fi
     }
  :: else
  fi
}

inline op_land_step(p) {
  part_out[p] = LANDED;
  for (i : p * LINES .. p * LINES + LINES - 1) {
    if :: part_writes[i] > 0 -> block_content[part_writes[i] - 1] = part_content[i] :: else fi
  }
}

inline op_retire(p) {
  part_out[p] = 0;
  push(E_part_done, p)
}

inline no_step_on(b) {
  for (h : 0 .. N_PART * LINES - 1) {
    L3_no_reuse = part_writes[h] != b + 1 && part_held[h] != b + 1;
    assert(L3_no_reuse)
  }
}
#endif
