//! The layout of a control file against `spec/vectors/pool.txt`, which was computed from the page
//! and not by this crate.

use std::collections::HashMap;

use hythe_abi::pool::{
    CLASSES_MAX, ControlLayout, Limits, REGIONS_MAX, connection, header, high_water, region,
};

type Group = HashMap<String, String>;

/// The groups of a vector file whose names begin with `prefix`.
fn groups(text: &str, prefix: &str) -> Vec<Group> {
    let mut found: Vec<Group> = Vec::new();
    let mut inside = false;
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            inside = name.starts_with(prefix);
            if inside {
                found.push(Group::new());
            }
        } else if let (true, Some((key, value))) = (inside, line.split_once(" = ")) {
            found
                .last_mut()
                .expect("a group")
                .insert(key.to_owned(), value.to_owned());
        }
    }
    found
}

#[test]
fn tables_stand_where_the_page_says() {
    let layouts = groups(include_str!("../../../../spec/vectors/pool.txt"), "layout.");
    assert_eq!(layouts.len(), 3);
    for group in layouts {
        let number = |key: &str| group[key].parse::<usize>().expect("a number");
        let limit = |key: &str| number(&format!("limit_{key}")) as u32;
        let limits = Limits {
            participants: limit("participants"),
            channels: limit("channels"),
            ports: limit("ports"),
            connections: limit("connections"),
            queue_segments: limit("queue_segments"),
            slots: limit("slots"),
        };
        let layout = ControlLayout::new(limits).expect("possible limits");
        let last = limits.participants as usize - 1;
        let found = [
            ("participants", layout.participant(0)),
            ("witnesses", layout.witness(0, 0)),
            ("channels", layout.channel(0)),
            ("ports", layout.port(0)),
            ("connections", layout.connection(0)),
            ("queue_segment_owners", layout.queue_segment_owner(0)),
            ("channel_hashes", layout.channel_hash(0)),
            ("port_channels", layout.port_channel(0)),
            ("consumer_ports", layout.consumer_port(0)),
            ("marks", layout.mark_summary(0)),
            ("ledger", layout.slot_cell(0)),
            ("holds", layout.hold(0, 0)),
            ("queue_segments", layout.queue_segment(0)),
            ("gaps", layout.gap(0)),
            ("bytes", layout.bytes()),
            ("last_participant", layout.participant(last)),
            ("last_witness", layout.witness(last, last)),
            (
                "last_consumer_port",
                layout.consumer_port(limits.connections as usize - 1),
            ),
            ("last_mark", layout.mark_cell(last, layout.mark_cells() - 1)),
            ("last_hold", layout.hold(last, limits.slots as usize - 1)),
        ];
        for (key, at) in found {
            assert_eq!(at, number(key), "{key} with {limits:?}");
        }
    }
}

#[test]
fn marks_stand_where_the_page_says() {
    let noted = &groups(include_str!("../../../../spec/vectors/pool.txt"), "marks")[0];
    let class = |region: usize, class: usize| {
        header::HIGH_WATER + high_water::REGIONS + region * high_water::REGION_BYTES + class * 8
    };
    for (key, at) in [
        ("ports", header::HIGH_WATER + 2 * 8),
        ("queue_segments", header::HIGH_WATER + 4 * 8),
        ("class.0.0", class(0, 0)),
        ("class.7.7", class(7, 7)),
    ] {
        assert_eq!(noted[key].parse(), Ok(at), "{key}");
    }
    assert!(class(REGIONS_MAX - 1, CLASSES_MAX - 1) < hythe_abi::PAGE_BYTES);
}

#[test]
fn words_of_a_region_stand_where_the_page_says() {
    let noted = &groups(include_str!("../../../../spec/vectors/pool.txt"), "region")[0];
    let words = [
        ("link_bytes", region::LINK_BYTES),
        ("link_offset", region::LINK_OFFSET),
        ("segments_offset", region::SEGMENTS_OFFSET),
        ("segments_bytes", region::SEGMENTS_BYTES),
        ("name", region::NAME),
        ("class_table", region::CLASS_TABLE),
    ];
    assert_eq!(noted.len(), words.len());
    for (key, at) in words {
        assert_eq!(noted[key].parse(), Ok(at), "{key}");
    }
}

#[test]
fn words_of_a_connection_stand_where_the_page_says() {
    let noted = &groups(
        include_str!("../../../../spec/vectors/pool.txt"),
        "connection",
    )[0];
    let words = [
        ("missed", connection::MISSED),
        ("tail", connection::TAIL),
        ("head", connection::HEAD),
        ("counted", connection::COUNTED),
        ("oldest", connection::OLDEST),
    ];
    assert_eq!(noted.len(), words.len());
    for (key, at) in words {
        assert_eq!(noted[key].parse(), Ok(at), "{key}");
    }
}
