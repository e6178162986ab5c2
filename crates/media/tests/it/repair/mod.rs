//! Repair of lost packets, from one session to another and with receivers that lie.

mod askers;
mod ways;
