//! What an RTOS core says of its latencies: histograms as records (`spec/histogram.md`), over the
//! pool or a serial line.

mod conditions;
mod histogram;
pub mod serial;

pub use conditions::Conditions;
pub use histogram::{CoreHistogram, bucket, bucket_count, highest_of};
