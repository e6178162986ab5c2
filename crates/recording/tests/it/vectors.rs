//! Recordings against `spec/vectors/recording.txt`, which was computed from the page and not by
//! this crate.

use std::io::Cursor;

use hythe_recording::{Header, Reader, Writer, checksum};
use hythe_testing::vectors::{self, Group, bytes};

/// The groups of the file whose names begin with `prefix`.
fn groups(prefix: &str) -> Vec<Group> {
    let text = include_str!("../../../../spec/vectors/recording.txt");
    let found = vectors::groups(text, prefix).into_iter();
    found.map(|(_, group)| group).collect()
}

fn number(group: &Group, key: &str) -> u64 {
    vectors::number(&group[key])
}

fn optional(group: &Group, key: &str) -> u64 {
    group.get(key).map_or(0, |value| vectors::number(value))
}

fn header(group: &Group) -> Header {
    Header {
        channel: group["channel"].clone(),
        type_name: group.get("type_name").cloned().unwrap_or_default(),
        type_bytes: number(group, "type_bytes") as u32,
        type_align: number(group, "type_align") as u32,
        type_version: number(group, "type_version") as u32,
        started_unix_ns: number(group, "started_unix_ns"),
    }
}

/// Times, messages missing before, payloads.
fn records(group: &Group) -> Vec<(u64, u64, Vec<u8>)> {
    (0..)
        .map_while(|index| {
            let hex = group.get(&format!("record.{index}.hex"))?;
            Some((
                number(group, &format!("record.{index}.time_ns")),
                optional(group, &format!("record.{index}.missed_before")),
                bytes(hex),
            ))
        })
        .collect()
}

#[test]
fn files_are_written_as_the_page_says() {
    for group in groups("file.") {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &header(&group)).expect("good names");
        let append_missed = |writer: &mut Writer<&mut Vec<u8>>, missed| {
            if missed > 0 {
                writer.append_missed(missed).expect("room");
            }
        };
        for (time_ns, missed_before, payload) in records(&group) {
            append_missed(&mut writer, missed_before);
            writer.append(time_ns, &payload).expect("room");
        }
        append_missed(&mut writer, optional(&group, "missed_behind"));
        let totals = writer.finish(number(&group, "dropped")).expect("room");
        assert_eq!(totals.file_bytes, number(&group, "file_bytes"));
        assert_eq!(file, bytes(&group["hex"]), "{}", group["channel"]);
    }
}

#[test]
fn files_are_read_as_the_page_says() {
    let groups = groups("file.");
    assert_eq!(groups.len(), 3);
    for group in groups {
        let mut reader = Reader::open(Cursor::new(bytes(&group["hex"]))).expect("a recording");
        assert_eq!(*reader.header(), header(&group));
        let summary = reader.summary();
        assert_eq!(summary.dropped, Some(number(&group, "dropped")));
        let mut found = Vec::new();
        while let Some(record) = reader.next().expect("in memory") {
            let mut payload = vec![0; record.bytes as usize];
            reader.read_payload(&record, &mut payload).expect("whole");
            found.push((record.time_ns, record.missed_before, payload));
        }
        assert_eq!(found, records(&group));
        assert_eq!(
            (summary.records, reader.skipped_bytes()),
            (found.len() as u64, 0)
        );
    }
}

#[test]
fn long_file_has_its_indexes_where_the_page_says() {
    let group = &groups("many")[0];
    let mut file = Vec::new();
    let header = Header {
        started_unix_ns: 1,
        ..Header::raw("many")
    };
    let mut writer = Writer::new(&mut file, &header).expect("a good name");
    for index in 0..number(group, "records") {
        let payload = vec![index as u8; index as usize % 9];
        writer.append(index * 1000, &payload).expect("room");
    }
    writer.finish(0).expect("room");
    assert_eq!(file.len() as u64, number(group, "file_bytes"));
    let expected = group["checksum"].trim_start_matches("0x");
    assert_eq!(format!("{:08x}", checksum(0, &file)), expected);
}
