//! Real-time latency of an RTOS core or of this machine, as histograms that count every sample.
//!
//! [`core`] reads the histograms that a core reports (`spec/histogram.md`), [`outside`] times the
//! edges on a pin of the core, [`host`] measures this machine, [`xen`] a core beside Linux under
//! Xen. Every run ends with a [`result`]. [`compare`] puts results side by side, [`threshold`]
//! checks them against limits, [`hgrm`], [`junit`] and [`rtla`] write them for other programs. The
//! command `hythe latency` calls this crate.
//!
//! It does not use the pool. It never averages samples, and never subtracts the cost of measuring.

pub mod compare;
pub mod core;
mod error;
pub mod hgrm;
pub mod host;
pub mod junit;
pub mod machine;
mod outliers;
pub mod outside;
pub mod result;
pub mod rtla;
pub mod threshold;
pub mod xen;

pub use error::LatencyError;
