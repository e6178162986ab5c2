//! Real-time latency: what a core or this machine measured, as histograms that keep every sample.
//!
//! [`core`] reads what an RTOS core says of itself (`spec/histogram.md`), [`outside`] times the edges on its pin; [`result`] is what
//! every run ends with. The command `hythe latency` calls it.
//! Stands alone: needs nothing of the pool. Never averages, and never subtracts the cost of measuring from a figure.

pub mod core;
mod error;
pub mod machine;
pub mod outside;
pub mod result;
pub mod xen;

pub use error::LatencyError;
