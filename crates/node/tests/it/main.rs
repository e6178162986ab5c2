//! The tests of this package from outside, in one program: a module for each matter.

mod card;
#[allow(dead_code, reason = "bytes are the fuzzer's")]
#[path = "../../../pool/tests/it/hostile_peer/choices.rs"]
mod choices;
mod closing;
mod containers;
mod cut_files;
mod deaths;
mod directory;
mod ends;
mod events;
mod forged_records;
mod forks;
mod high_water;
mod hostile;
mod hosts;
mod interrupts;
mod kill_processes;
mod late_sources;
mod lost;
mod many;
mod memory_limits;
mod message_queues;
mod mismatch;
mod missed;
mod object_descriptors;
mod objects_among_users;
mod other_version;
mod permissions;
mod policies;
mod polling_path;
mod ports;
mod prefault;
mod private;
mod processes;
mod ranges;
mod refused_calls;
mod regions;
mod requests;
mod rpc;
mod semaphores;
mod slow_receivers;
mod sources_in_order;
mod support;
mod two_widths;
mod typed;
mod unreached;
mod wait_set;
mod wait_set_patterns;
mod waiting_refused;
mod wire;
#[path = "../../../pool/tests/it/hostile_peer/words.rs"]
mod words;
mod zero_copy;
