//! What the paper measured: two hosts with Linux 2.2.12, the mean of 100 repetitions, time in the
//! server around the sending.

/// Packets, plain Linux, the paper's system call; seconds.
const TABLE: [(u32, f64, f64); 3] = [
    (10_000, 0.50, 0.31),
    (30_000, 1.27, 0.87),
    (50_000, 2.06, 1.43),
];

/// Seconds with plain Linux.
pub(super) fn plain(packets: u32) -> Option<f64> {
    row(packets).map(|(_, plain, _)| plain)
}

/// Seconds with its system call.
pub(super) fn improved(packets: u32) -> Option<f64> {
    row(packets).map(|(_, _, improved)| improved)
}

fn row(packets: u32) -> Option<(u32, f64, f64)> {
    TABLE.into_iter().find(|(count, ..)| *count == packets)
}
