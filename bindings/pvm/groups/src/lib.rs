//! `libgpvm3.so.3`, which programs for PVM load that use groups.
//!
//! It is empty: `libpvm3.so.3`, which each of them loads, too, has the functions of groups, since
//! both share one session. Never does anything.
