/* Words that the rest is written in. What takes the name of an array is a macro, since an inline takes values only. */

#define pool_of(b) ((b) >= DEVICE_BLOCKS -> 1 : 0)
#define pool_base(p) ((p) * DEVICE_BLOCKS)
#define device_key(k) ((k) % KEYS)
#define key_content(k) ((k) % KEYS + 1)
#define part_touches(p, b) (part_source[p] == (b) + 1 || part_checked[p] == (b) + 1 || part_fills[p] == (b) + 1)
#define part_lost(p) (part_state[p] == S_part_failed || part_state[p] == S_part_lost || part_state[p] == S_part_gone)
#define of_batch(p, x) (part_state[p] > 0 && part_owner[p] == x + N_OFFLOAD + 1)

#define key_names(k, b) ((key_state[k] == S_key_ready || key_state[k] == S_key_cooling) && key_block[k] == (b) + 1)

/* Is the verdict of this batch still to come, and somebody there to hear it? */
#define awaited(x) (transfer_load[x] > 0 && !transfer_told[x] && transfer_live[x] && \
  transfer_state[x] != S_transfer_aborting && load_state[transfer_load[x] - 1] != S_load_aborting)

/* Give an active block its key, later. */
#define publish_later(b, key) push(OP_publish, (key) * BLOCKS + (b))

/* The blocks on the lines of record x, in their order. */
#define find_links(links, x) \
  for (h : (x) * LINES .. (x) * LINES + LINES - 1) { \
    if :: links[h] > 0 -> find(links[h] - 1) :: else fi \
  }

/* The same, the last one first. */
#define find_links_backwards(links, x) \
  for (h : 1 .. LINES) { \
    if :: links[(x) * LINES + LINES - h] > 0 -> find(links[(x) * LINES + LINES - h] - 1) :: else fi \
  }

/* Strike out the lines of record x. */
#define forget(links, x) for (h : (x) * LINES .. (x) * LINES + LINES - 1) { links[h] = 0 }

/* Take a block out of a list of lease r. */
#define strike(listed, count, r, link) \
  shifted = false; \
  for (h : (r) * OWNED .. (r) * OWNED + OWNED - 1) { \
    if :: listed[h] == link -> shifted = true; count[r]-- :: else fi; \
    if \
    :: shifted && h < (r) * OWNED + OWNED - 1 -> listed[h] = listed[h + 1] \
    :: shifted && h == (r) * OWNED + OWNED - 1 -> listed[h] = 0 \
    :: else \
    fi \
  }
