//! The tests of this package from outside, in one program: a module for each matter.

#![cfg(not(loom))]

mod core_histories;
mod hostile;
mod hostile_peer;
mod kill_sweep;
mod kill_twice;
mod last_port;
mod last_use;
mod ledger_model;
mod liars;
mod named_deaths;
mod oldest;
mod threads;
mod ways;
mod world;
