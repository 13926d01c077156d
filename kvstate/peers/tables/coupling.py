# Generated from spec/peers/coupling.toml by `make tables`; do not edit.
"""What couples the machines, in the order in which it happens."""

from __future__ import annotations

RELATIONS: tuple[tuple[str, str, str], ...] = (
    ("link_lends", "link", "lend"),
    ("link_borrows", "link", "borrow"),
    ("link_elders", "link", "link"),
    ("borrow_checks", "borrow", "check"),
    ("check_borrow", "check", "borrow"),
)
"""name, of which machine, to which machine"""

COUPLINGS: tuple[tuple[str, str, str, str, str, str, bool], ...] = (
    ("J03", "link", "replace", "link", "replaced", "link_elders", False),
    ("J07", "link", "lose", "lend", "peer_lost", "link_lends", False),
    ("J08", "link", "lose", "borrow", "peer_lost", "link_borrows", False),
    ("J42", "borrow", "deny", "check", "void", "borrow_checks", False),
    ("J43", "borrow", "silence", "check", "lose", "borrow_checks", False),
    ("J63", "check", "note", "borrow", "vouched", "check_borrow", False),
)
"""id, machine, effect, target machine, its event, over which relation, ask first"""

ACTS: tuple[tuple[str, str, str, str, str], ...] = (
    ("J01", "link", "say_hello", "say_hello", "before"),
    ("J11", "link", "ask_hello", "ask_hello", "before"),
    ("J02", "link", "wait_resend", "wait_resend", "before"),
    ("J04", "link", "tell_met", "tell_met", "before"),
    ("J05", "link", "tell_strange", "tell_strange", "before"),
    ("J06", "link", "tell_gone", "tell_gone", "before"),
    ("J09", "link", "say_bye", "say_bye", "before"),
    ("J10", "link", "stale", "count_stale", "before"),
    ("J20", "lend", "let_go", "let_go", "before"),
    ("J21", "lend", "tell", "tell_lend", "before"),
    ("J22", "lend", "send_offer", "send_offer", "before"),
    ("J23", "lend", "send_withdrawn", "send_withdrawn", "before"),
    ("J24", "lend", "send_over", "send_over", "before"),
    ("J25", "lend", "vouch", "send_vouch", "before"),
    ("J26", "lend", "deny", "send_deny", "before"),
    ("J27", "lend", "extend", "extend_lend", "before"),
    ("J28", "lend", "grant", "send_renewed", "before"),
    ("J29", "lend", "no_more", "count_no_more", "before"),
    ("J30", "lend", "wait_closing", "wait_closing", "before"),
    ("J31", "lend", "wait_resend", "wait_resend", "before"),
    ("J32", "lend", "stale", "count_stale", "before"),
    ("J40", "borrow", "announce", "announce", "before"),
    ("J41", "borrow", "vanish", "vanish", "before"),
    ("J44", "borrow", "tell_taken", "tell_borrow", "before"),
    ("J45", "borrow", "tell_refused", "tell_borrow", "before"),
    ("J46", "borrow", "tell_withdrawn", "tell_borrow", "before"),
    ("J47", "borrow", "tell_expired", "tell_borrow", "before"),
    ("J48", "borrow", "tell_lost", "tell_borrow", "before"),
    ("J49", "borrow", "send_received", "send_received", "before"),
    ("J50", "borrow", "send_renew", "send_renew", "before"),
    ("J51", "borrow", "send_taken", "send_taken", "before"),
    ("J52", "borrow", "send_refused", "send_refused", "before"),
    ("J53", "borrow", "send_void", "send_void", "before"),
    ("J54", "borrow", "wait_lease", "wait_lease", "before"),
    ("J55", "borrow", "extend", "extend_borrow", "before"),
    ("J56", "borrow", "wait_closing", "wait_closing", "before"),
    ("J57", "borrow", "wait_resend", "wait_resend", "before"),
    ("J58", "borrow", "stale", "count_stale", "before"),
    ("J60", "check", "send_check", "send_check", "before"),
    ("J61", "check", "wait_closing", "wait_answer", "before"),
    ("J62", "check", "wait_resend", "wait_resend", "before"),
    ("J64", "check", "forward_done", "forward_done", "before"),
    ("J65", "check", "forward_denied", "forward_denied", "before"),
    ("J66", "check", "forward_lost", "forward_lost", "before"),
    ("J67", "check", "forward_late", "forward_late", "before"),
    ("J68", "check", "stale", "count_stale", "before"),
)
"""id, machine, effect, act of the ledger, before or after the couplings of the same effect"""
