//! Real-time latency: what a core or this machine measured, as histograms that keep every sample.
//!
//! [`core`] reads what an RTOS core says of itself (`spec/histogram.md`), [`outside`] times the
//! edges on its pin, [`host`] measures the machine it runs on; [`result`] is what every run ends
//! with. [`compare`] puts results side by side, [`threshold`] judges them, [`hgrm`], [`junit`] and
//! [`rtla`] write them for other programs. The command `hythe latency` calls it. Stands alone:
//! needs nothing of the pool. Never averages, and never subtracts the cost of measuring from a
//! figure.

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
