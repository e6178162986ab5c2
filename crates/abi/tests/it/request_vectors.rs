//! Headers of requests and replies against `spec/vectors/request.txt`, which was written from the
//! page and not by this crate.

use std::collections::HashMap;

use hythe_abi::request::{BYTES, Header, MessageKind};

/// Name and contents of each group.
fn groups() -> Vec<(&'static str, HashMap<&'static str, &'static str>)> {
    let mut found: Vec<(&str, HashMap<&str, &str>)> = Vec::new();
    for line in include_str!("../../../../spec/vectors/request.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            found.push((name.trim_end_matches(']'), HashMap::new()));
        } else if let Some((key, value)) = line.split_once(" = ") {
            found.last_mut().expect("a group").1.insert(key, value);
        }
    }
    found
}

fn bytes(hex: &str) -> [u8; BYTES] {
    assert_eq!(hex.len(), BYTES * 2);
    std::array::from_fn(|index| {
        u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).expect("hexadecimal")
    })
}

#[test]
fn headers_are_those_of_the_page() {
    let (good, bad): (Vec<_>, Vec<_>) = groups()
        .into_iter()
        .partition(|(name, _)| name.starts_with("header."));
    assert_eq!((good.len(), bad.len()), (4, 3));
    for (name, group) in good {
        let kind = match group["kind"] {
            "1" => MessageKind::Request,
            "2" => MessageKind::Reply,
            "3" => MessageKind::GivenUp,
            _ => MessageKind::Lost,
        };
        let number = group["number"].parse().expect("a number");
        let header = Header { kind, number };
        assert_eq!(header.to_bytes(), bytes(group["hex"]), "{name}");
        assert_eq!(
            Header::from_bytes(bytes(group["hex"])),
            Some(header),
            "{name}"
        );
    }
    for (name, group) in bad {
        assert_eq!(Header::from_bytes(bytes(group["hex"])), None, "{name}");
    }
}
