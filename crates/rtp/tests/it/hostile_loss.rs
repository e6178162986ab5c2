//! Seeded runs of the hostile peer that `fuzz/fuzz_targets/media_loss.rs` plays without end.

mod peer;

use hythe_rtp::loss::fec::predict::Chance;

/// Scenes, and bytes of each: some 100 packets.
const SEEDS: u64 = 3000;
const BYTES: usize = 4096;

#[test]
fn nothing_a_peer_writes_breaks_the_repair() {
    for seed in 0..SEEDS {
        let mut chance = Chance::new(seed);
        let bytes: Vec<u8> = (0..BYTES).map(|_| chance.number() as u8).collect();
        println!("seed {seed}"); // shown where it fails
        peer::play(&bytes);
    }
}
