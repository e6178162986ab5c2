//! The layout of a table of segments against `spec/vectors/segments.txt`.

use hythe_abi::segments::{
    FILE_BYTES, HEADER_BYTES, MAGIC, RECORD_BYTES, SEGMENTS_MAX, header, record,
};
use hythe_testing::vectors::{groups, number};

#[test]
fn words_stand_where_the_page_says() {
    let text = include_str!("../../../../spec/vectors/segments.txt");
    let sizes = [
        ("header", HEADER_BYTES as u64),
        ("record", RECORD_BYTES as u64),
        ("records", SEGMENTS_MAX as u64),
        ("file", FILE_BYTES as u64),
        ("magic", MAGIC),
    ];
    let header = [
        ("magic", header::MAGIC),
        ("version", header::VERSION),
        ("capacity", header::CAPACITY),
        ("next_order", header::NEXT_ORDER),
        ("namespace", header::NAMESPACE),
    ];
    let record = [
        ("state", record::STATE),
        ("id", record::ID),
        ("key", record::KEY),
        ("page", record::PAGE),
        ("pages", record::PAGES),
        ("made_on", record::MADE_ON),
        ("bytes", record::SEGMENT_BYTES),
        ("order", record::ORDER),
        ("creator", record::CREATOR),
        ("core_attached", record::CORE_ATTACHED),
        ("creator_start", record::CREATOR_START),
        ("begun", record::BEGUN),
        ("core", record::CORE),
        ("core_start", record::CORE_START),
        ("name", record::NAME),
        ("pid_namespace", record::PID_NAMESPACE),
        ("core_namespace", record::CORE_NAMESPACE),
    ];
    let words = |of: &[(&'static str, usize)]| -> Vec<(&'static str, u64)> {
        of.iter().map(|(key, at)| (*key, *at as u64)).collect()
    };
    for (name, found) in [
        ("sizes", sizes.to_vec()),
        ("header", words(&header)),
        ("record", words(&record)),
    ] {
        let (_, noted) = groups(text, name).remove(0);
        assert_eq!(noted.len(), found.len(), "{name}");
        for (key, at) in found {
            assert_eq!(number::<u64>(&noted[key]), at, "{name} {key}");
        }
    }
}
