//! The tests of this package from outside, in one program: a module for each matter.

mod adding;
mod agents;
mod clocks;
mod commands;
mod cores;
mod deaths;
mod descriptors;
mod directory;
mod examples;
mod flow_deaths;
mod flow_links;
mod flow_tasks;
mod flows;
mod hostile_documents;
mod hosts;
mod listed;
mod logs;
mod network;
mod open;
#[path = "../../../bindings/pvm/tests/it/support/printed.rs"]
mod printed;
mod pvm;
mod realm;
mod revocation;
mod strangers;
mod tasks;
mod three_seconds;
mod tls;
mod trouble;
mod tunnels;
