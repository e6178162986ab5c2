//! Rows of tasks and ports against `spec/vectors/control.txt`, which was written from the page and
//! not by this crate.

use std::collections::HashMap;

use hythe_abi::control::{NAME_BYTES, PortRow, TaskRow};

type Group = HashMap<&'static str, &'static str>;

/// Name and contents of each group.
fn groups(kind: &str) -> Vec<(&'static str, Group)> {
    let mut found: Vec<(&str, Group)> = Vec::new();
    for line in include_str!("../../../../spec/vectors/control.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            found.push((name.trim_end_matches(']'), HashMap::new()));
        } else if let Some((key, value)) = line.split_once(" = ") {
            found.last_mut().expect("a group").1.insert(key, value);
        }
    }
    found.retain(|(name, _)| name.starts_with(kind));
    found
}

fn bytes<const N: usize>(group: &Group) -> [u8; N] {
    let hex = group["hex"];
    assert_eq!(hex.len(), N * 2);
    std::array::from_fn(|index| {
        u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).expect("hexadecimal")
    })
}

fn number(group: &Group, key: &str) -> u32 {
    let text = group[key];
    let number = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    number.expect("a number")
}

#[test]
fn rows_of_tasks_are_those_of_the_page() {
    let groups = groups("task.");
    assert_eq!(groups.len(), 2);
    for (name, group) in groups {
        let mut row = TaskRow {
            name: [0; NAME_BYTES],
            number: number(&group, "number"),
            state: number(&group, "state"),
            flags: number(&group, "flags"),
            priority: number(&group, "priority"),
            stack_bytes: number(&group, "stack_bytes"),
            stack_free_bytes: number(&group, "stack_free_bytes"),
            run_time_us: u64::from(number(&group, "run_time_high")) << 32
                | u64::from(number(&group, "run_time_low")),
            starts: number(&group, "starts"),
            kills: number(&group, "kills"),
            held: number(&group, "held"),
            buffers_returned: number(&group, "buffers_returned"),
            requests_forgotten: number(&group, "requests_forgotten"),
            fault: number(&group, "fault"),
            fault_address: number(&group, "fault_address"),
            fault_pc: number(&group, "fault_pc"),
        };
        row.name[..group["name"].len()].copy_from_slice(group["name"].as_bytes());
        assert_eq!(row.to_bytes(), bytes(&group), "{name}");
        assert_eq!(TaskRow::from_bytes(&bytes(&group)), row, "{name}");
    }
}

#[test]
fn rows_of_ports_are_those_of_the_page() {
    let groups = groups("port.");
    assert_eq!(groups.len(), 1);
    for (name, group) in groups {
        let row = PortRow {
            endpoint: number(&group, "endpoint"),
            port: number(&group, "port"),
            session: number(&group, "session"),
            inbox_head: number(&group, "inbox_head"),
            outbox_tail: number(&group, "outbox_tail"),
            head_seen: number(&group, "head_seen"),
            held: number(&group, "held"),
            window: number(&group, "window"),
            flags: number(&group, "flags"),
        };
        assert_eq!(row.to_bytes(), bytes(&group), "{name}");
        assert_eq!(PortRow::from_bytes(&bytes(&group)), row, "{name}");
    }
}
