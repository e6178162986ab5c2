//! The demo's result for people: the table of hops, and what was compared.

use std::fmt::Write as _;

use hythe_command::output::table;

use crate::Verdict;

/// The result for people.
pub(super) fn render(verdict: &Verdict) -> String {
    let rows: Vec<Vec<String>> = verdict
        .hops
        .iter()
        .map(|hop| {
            vec![
                hop.name.to_owned(),
                hop.buffers.to_string(),
                hop.bytes.to_string(),
                hop.cpu_copies.to_string(),
                hop.wakes.to_string(),
                microseconds(hop.p50_ns),
                microseconds(hop.p99_ns),
            ]
        })
        .collect();
    let headings = [
        ">HOP",
        ">BUFFERS",
        ">BYTES",
        ">CPU COPIES",
        ">WAKES",
        ">P50",
        ">P99",
    ];
    let mut text = table(&headings, &rows);
    let seconds = verdict.samples as f64 / f64::from(verdict.hz.max(1));
    let emulated = if verdict.emulated {
        " (emulated: its times say nothing about hardware)"
    } else {
        ""
    };
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\n{}: {seconds:.1} s of {} Hz, {} channels, decoded by board {}{emulated}\n\
         packets: {} sent, {} received ({}); slots leaked: {}\n\
         recorded by ffmpeg, sample for sample what minimp3 decodes on this host: SHA-256 {}\n",
        verdict.input,
        verdict.hz,
        verdict.channels,
        verdict.board,
        verdict.packets_sent,
        verdict.packets_received,
        verdict.packets_received_by,
        verdict.slots_leaked,
        verdict.pcm_sha256,
    );
    text
}

fn microseconds(ns: u64) -> String {
    format!("{}.{} us", ns / 1000, ns % 1000 / 100)
}
