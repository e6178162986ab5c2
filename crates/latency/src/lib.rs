//! Real-time latency: what a core or this machine measured, as histograms that keep every sample.
//!
//! [`core`] reads what an RTOS core says of itself (`spec/histogram.md`). The command `hythe latency` calls it.
//! Stands alone: needs nothing of the pool. Never averages, and never subtracts the cost of measuring from a figure.

pub mod core;
mod error;

pub use error::LatencyError;
