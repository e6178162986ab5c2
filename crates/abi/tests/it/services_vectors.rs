//! Headers of calls and of their replies against `spec/vectors/services.txt`, which was written
//! from the page and not by this crate.

use std::collections::HashMap;

use hythe_abi::core_services::{SEGMENT_STATUS_BYTES, SegmentStatus, TYPE_HASH};
use hythe_abi::services::{CallHeader, ReplyHeader};

type Group = HashMap<&'static str, &'static str>;

/// Name and contents of each group.
fn groups() -> Vec<(&'static str, Group)> {
    let mut found: Vec<(&str, Group)> = Vec::new();
    for line in include_str!("../../../../spec/vectors/services.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            found.push((name.trim_end_matches(']'), HashMap::new()));
        } else if let Some((key, value)) = line.split_once(" = ") {
            found.last_mut().expect("a group").1.insert(key, value);
        }
    }
    found
}

fn bytes<const COUNT: usize>(group: &Group) -> [u8; COUNT] {
    let hex = group["hex"];
    assert_eq!(hex.len(), COUNT * 2);
    std::array::from_fn(|index| {
        u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).expect("hexadecimal")
    })
}

fn number(group: &Group, key: &str) -> u32 {
    long(group, key).try_into().expect("32 bits")
}

fn long(group: &Group, key: &str) -> u64 {
    let text = group[key];
    let number = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    number.expect("a number")
}

#[test]
fn calls_are_those_of_the_page() {
    let mut seen = 0;
    for (name, group) in groups() {
        if !name.starts_with("call.") {
            continue;
        }
        seen += 1;
        let argument = |index| number(&group, &format!("argument.{index}"));
        let header = CallHeader {
            method: number(&group, "method"),
            task: number(&group, "task"),
            timeout_ms: number(&group, "timeout_ms"),
            flags: number(&group, "flags"),
            arguments: [0, 1, 2].map(argument),
            bytes: number(&group, "bytes"),
        };
        assert_eq!(header.to_bytes(), bytes(&group), "{name}");
        assert_eq!(
            CallHeader::from_bytes(bytes(&group)),
            Some(header),
            "{name}"
        );
    }
    assert_eq!(seen, 7);
}

#[test]
fn replies_are_those_of_the_page() {
    let mut seen = 0;
    for (name, group) in groups() {
        if !name.starts_with("reply.") {
            continue;
        }
        seen += 1;
        let value = |index| number(&group, &format!("value.{index}"));
        let header = ReplyHeader {
            method: number(&group, "method"),
            result: group["result"].parse().expect("a number"),
            values: [0, 1, 2, 3, 4].map(value),
            bytes: number(&group, "bytes"),
        };
        assert_eq!(header.to_bytes(), bytes(&group), "{name}");
        assert_eq!(ReplyHeader::from_bytes(bytes(&group)), header, "{name}");
    }
    assert_eq!(seen, 8);
}

#[test]
fn what_is_no_call_is_refused() {
    let refused: Vec<_> = groups()
        .into_iter()
        .filter(|(name, _)| name.starts_with("refused."))
        .collect();
    assert_eq!(refused.len(), 2);
    for (name, group) in refused {
        assert_eq!(CallHeader::from_bytes(bytes(&group)), None, "{name}");
    }
}

#[test]
fn what_is_said_of_a_segment_is_that_of_the_page() {
    let groups = groups();
    let (_, group) = groups
        .iter()
        .find(|(name, _)| *name == "segment.each_field")
        .expect("a group");
    let words = |keys: [&str; 2]| keys.map(|key| number(group, key));
    let time = |key| long(group, key).cast_signed();
    let status = SegmentStatus {
        key: number(group, "key").cast_signed(),
        owner: words(["owner", "group"]),
        creator: words(["creator", "creator_group"]),
        mode: number(group, "mode"),
        made_on: number(group, "made_on"),
        page: number(group, "page"),
        bytes: long(group, "size"),
        times: ["attach_time", "detach_time", "change_time"].map(time),
        attached: words(["attached", "attached_core"]),
        processes: words(["creator_process", "last_process"]),
        order: long(group, "order"),
    };
    assert_eq!(status.to_bytes(), bytes::<SEGMENT_STATUS_BYTES>(group));
    // A type's hash, as the page says it.
    assert_eq!(TYPE_HASH, 0x1B70_98AD);
}
