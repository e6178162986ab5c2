//! Recordings that were cut, damaged or made up: what is whole is read, what is not is counted,
//! nothing panics.

use std::io::Cursor;

use hythe_recording::{Header, INDEX_RECORDS, Reader, Record, RecordingError, Writer};
use proptest::prelude::*;

/// A recording of `count` messages, message n at n microseconds, and where each ends in the file.
fn recorded(count: u64, end: bool) -> (Vec<u8>, Vec<usize>) {
    let mut file = Vec::new();
    let mut ends = Vec::new();
    let mut writer = Writer::new(&mut file, &Header::raw("channel")).expect("a good name");
    for number in 0..count {
        writer
            .append(number * 1000, &payload(number))
            .expect("room");
        ends.push(writer.totals().file_bytes as usize);
    }
    if end {
        writer.finish(3).expect("room");
    }
    (file, ends)
}

fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; number as usize % 21]
}

fn all(reader: &mut Reader<Cursor<Vec<u8>>>) -> Vec<Record> {
    std::iter::from_fn(|| reader.next().expect("in memory")).collect()
}

fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.number).collect()
}

#[test]
fn file_cut_anywhere_reads_up_to_the_last_whole_record() {
    let (file, ends) = recorded(300, true);
    for cut in (0..file.len()).rev().step_by(11) {
        let opened = Reader::open(Cursor::new(file[..cut].to_vec()));
        if cut < 256 {
            let refused = opened.expect_err("no header").to_string();
            assert!(refused.contains(&format!("{cut} bytes")), "{refused}");
            continue;
        }
        let mut reader = opened.expect("a header");
        let summary = reader.summary();
        // Padding is no part of a record.
        let whole = ends
            .iter()
            .enumerate()
            .take_while(|(number, end)| {
                let padding = (8 - payload(*number as u64).len() % 8) % 8;
                let index = if number % INDEX_RECORDS == INDEX_RECORDS - 1 {
                    4136
                } else {
                    0
                };
                **end - padding - index <= cut
            })
            .count() as u64;
        assert_eq!(summary.records, whole, "cut at {cut}");
        assert!(!summary.is_complete && summary.dropped.is_none());
        let found = all(&mut reader);
        assert_eq!(numbers(&found), (0..whole).collect::<Vec<_>>());
        let last = found
            .last()
            .map_or(256, |last| last.position + u64::from(last.bytes));
        assert!(summary.dropped_bytes <= cut as u64 - last, "{summary:?}");
        for record in &found {
            let mut read = vec![0; record.bytes as usize];
            reader.read_payload(record, &mut read).expect("whole");
            assert_eq!(read, payload(record.number));
        }
    }
}

#[test]
fn damage_in_the_middle_costs_what_it_hits() {
    let (file, ends) = recorded(1000, true);
    // The head of record 600: the reader goes on where an index names the next.
    let mut damaged = file.clone();
    damaged[ends[599] + 9] ^= 1;
    let mut reader = Reader::open(Cursor::new(damaged)).expect("a recording");
    assert!(reader.summary().is_complete);
    let found = numbers(&all(&mut reader));
    assert_eq!(found.len(), 999);
    assert!(!found.contains(&600));
    assert_eq!(reader.skipped_bytes(), (ends[600] - ends[599]) as u64);
    // The content of record 600: it alone is lost, and named.
    let mut damaged = file.clone();
    damaged[ends[599] + 32] ^= 1;
    let mut reader = Reader::open(Cursor::new(damaged)).expect("a recording");
    for record in all(&mut reader) {
        let read = reader.read_payload(&record, &mut vec![0; record.bytes as usize]);
        match read {
            Err(RecordingError::Damaged { number, .. }) => assert_eq!(number, 600),
            read => assert!(read.is_ok() && record.number != 600, "{read:?}"),
        }
    }
    // The same without an end block: nothing behind it is trusted.
    let mut cut = file[..file.len() - 8].to_vec();
    cut[ends[599] + 32] ^= 1;
    let reader = Reader::open(Cursor::new(cut.clone())).expect("a recording");
    assert_eq!(reader.summary().records, 600);
    assert_eq!(
        reader.summary().dropped_bytes,
        (cut.len() - ends[599]) as u64
    );
}

#[test]
fn file_damaged_all_over_is_given_up_in_bounded_time() {
    let (mut file, ends) = recorded(4000, true);
    for end in ends.iter().step_by(2) {
        file[end + 9] ^= 1;
    }
    let bytes = file.len() as u64;
    let mut reader = Reader::open(Cursor::new(file)).expect("a recording");
    let found = all(&mut reader);
    assert!((900..=1100).contains(&found.len()), "{}", found.len());
    assert!(reader.skipped_bytes() > bytes / 2 && reader.skipped_bytes() < bytes);
}

#[test]
fn moment_is_found_with_and_without_an_end() {
    for end in [true, false] {
        let (file, _) = recorded(1000, end);
        let mut reader = Reader::open(Cursor::new(file)).expect("a recording");
        for (moment_ns, number) in [
            (0, Some(0)),
            (1, Some(1)),
            (255_000, Some(255)),
            (255_001, Some(256)),
            (256_000, Some(256)),
            (777_500, Some(778)),
            (999_000, Some(999)),
            (999_001, None),
            (u64::MAX, None),
        ] {
            reader.seek_time(moment_ns).expect("in memory");
            let found = reader
                .next()
                .expect("in memory")
                .map(|record| record.number);
            assert_eq!(found, number, "{moment_ns} end {end}");
        }
        reader.rewind();
        assert_eq!(all(&mut reader).len(), 1000);
    }
}

#[test]
fn recording_in_a_payload_does_not_end_the_one_around_it() {
    let (inner, _) = recorded(2, true);
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &Header::raw("outer")).expect("a good name");
    writer.append(0, b"first").expect("room");
    writer.append(1, &inner).expect("room");
    writer.finish(0).expect("room");
    // Cut right behind the inner recording's end.
    let cut = 256 + 40 + 32 + inner.len();
    let reader = Reader::open(Cursor::new(file[..cut].to_vec())).expect("a recording");
    assert_eq!(
        (reader.summary().records, reader.summary().is_complete),
        (2, false)
    );
}

#[test]
fn times_do_not_run_back_and_names_are_checked() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &Header::raw("x")).expect("a good name");
    writer.append(10, b"a").expect("room");
    writer.append(5, b"b").expect("room");
    assert_eq!(writer.finish(0).expect("room").last_time_ns, 10);
    assert!(Writer::new(Vec::new(), &Header::raw("")).is_err());
}

/// Reads all of it, in every way there is.
fn exercise(file: Vec<u8>, moment_ns: u64) {
    let bytes = file.len() as u64;
    let Ok(mut reader) = Reader::open(Cursor::new(file)) else {
        return;
    };
    let found = all(&mut reader);
    assert!(found.len() as u64 <= bytes / 32);
    for record in &found {
        assert!(record.position + u64::from(record.bytes) <= bytes);
        let _ = reader.read_payload(record, &mut vec![0; record.bytes as usize]);
    }
    reader.seek_time(moment_ns).expect("in memory");
    let _ = all(&mut reader);
}

/// A file whose checksums all hold, over contents that lie: blocks whose heads say `fields`.
fn lies(fields: &[(u8, u32, u64, u64)]) -> Vec<u8> {
    let (mut file, _) = recorded(3, false);
    for (kind, bytes, number, word) in fields {
        let content = [*word, *number, word.rotate_left(7), file.len() as u64];
        let content: Vec<u8> = content.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        let kind = [b"HREC", b"HIDX", b"HEND", b"HMIS"][usize::from(kind % 4)];
        let claimed = if bytes % 2 == 0 { 32 } else { *bytes };
        let mut head = kind.to_vec();
        head.extend(claimed.to_le_bytes());
        head.extend(number.to_le_bytes());
        head.extend(word.to_le_bytes());
        head.extend(hythe_recording::checksum(0, &content).to_le_bytes());
        head.extend(hythe_recording::checksum(0, &head).to_le_bytes());
        file.extend(head);
        file.extend(content);
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn scribbled_files_are_read_without_harm(
        scribbles in prop::collection::vec((0_usize..50_000, any::<u8>()), 0..20),
        cut in 0_usize..50_000,
        moment_ns in any::<u64>(),
    ) {
        let (mut file, _) = recorded(600, true);
        let length = file.len();
        for (at, byte) in scribbles {
            file[at % length] = byte;
        }
        file.truncate(length - cut % length);
        exercise(file, moment_ns);
    }

    #[test]
    fn lies_with_good_checksums_are_read_without_harm(
        fields in prop::collection::vec((any::<u8>(), any::<u32>(), 0_u64..8, 0_u64..2048), 1..12),
        moment_ns in any::<u64>(),
    ) {
        exercise(lies(&fields), moment_ns);
    }

    #[test]
    fn what_was_written_is_read(
        messages in prop::collection::vec((0_u64..1_000_000, prop::collection::vec(any::<u8>(), 0..100)), 0..600),
        dropped in any::<u64>(),
    ) {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &Header::raw("x")).expect("a good name");
        let mut time_ns = 0;
        let mut expected = Vec::new();
        for (gap, payload) in messages {
            time_ns += gap;
            writer.append(time_ns, &payload).expect("room");
            expected.push((time_ns, payload));
        }
        writer.finish(dropped).expect("room");
        let mut reader = Reader::open(Cursor::new(file)).expect("a recording");
        prop_assert_eq!(reader.summary().dropped, Some(dropped));
        let mut found = Vec::new();
        for record in all(&mut reader) {
            let mut payload = vec![0; record.bytes as usize];
            reader.read_payload(&record, &mut payload).expect("whole");
            found.push((record.time_ns, payload));
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn missed_messages_are_found_where_they_are_missing() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &Header::raw("x")).expect("a good name");
    for number in 0..600_u64 {
        if number % 100 == 50 {
            writer.append_missed(number).expect("room");
            writer.append_missed(1).expect("room");
        }
        writer.append(number * 1000, b"payload").expect("room");
    }
    for is_whole in [true, false] {
        // Also where the end is missing.
        let mut file = file.clone();
        file.truncate(file.len() - if is_whole { 0 } else { 4 });
        let mut reader = Reader::open(Cursor::new(file)).expect("a recording");
        let found = all(&mut reader);
        assert_eq!(found.len(), if is_whole { 600 } else { 599 });
        for record in &found {
            let missed = if record.number % 100 == 50 {
                record.number + 1
            } else {
                0
            };
            assert_eq!(record.missed_before, missed, "{record:?}");
        }
        reader.seek_time(50_000).expect("in memory");
        let next = reader.next().expect("in memory").expect("a record");
        assert_eq!((next.number, next.missed_before), (50, 0));
        reader.rewind();
        assert_eq!(all(&mut reader), found);
    }
}
