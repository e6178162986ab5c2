//! Histograms of cores against `spec/vectors/histogram.txt`, which was computed from the page and
//! not by this crate.

use hythe_latency::core::{CoreHistogram, bucket, bucket_count, highest_of};
use hythe_testing::vectors::{self, Group, bytes};
use proptest::prelude::{any, prop, proptest};

/// The groups of the file whose names begin with `prefix`, with those names.
fn groups(prefix: &str) -> Vec<(String, Group)> {
    vectors::groups(
        include_str!("../../../../spec/vectors/histogram.txt"),
        prefix,
    )
}

fn number(group: &Group, key: &str) -> u32 {
    vectors::number(&group[key])
}

#[test]
fn buckets_are_those_of_the_page() {
    let groups = groups("buckets.");
    assert_eq!(groups.len(), 3);
    for (name, group) in groups {
        let (precision, values) = (
            number(&group, "precision_bits"),
            number(&group, "value_bits"),
        );
        assert_eq!(bucket_count(precision, values), number(&group, "buckets"));
        let count = group.keys().filter(|key| key.starts_with("value.")).count();
        assert!(count > 0, "{name}");
        for i in 0..count {
            let value = number(&group, &format!("value.{i}"));
            let index = number(&group, &format!("index.{i}"));
            assert_eq!(bucket(precision, values, value), index, "{name}: {value}");
        }
    }
}

#[test]
fn records_are_read_as_the_page_says() {
    let groups = groups("histogram.");
    assert_eq!(groups.len(), 4);
    for (title, group) in groups {
        let histogram = CoreHistogram::read(&bytes(&group["hex"])).expect(&title);
        let mut samples: Vec<u32> = group["samples"]
            .split(' ')
            .filter_map(|sample| sample.parse().ok())
            .collect();
        samples.sort_unstable();
        assert_eq!(histogram.name, group["name"]);
        assert_eq!(histogram.count as usize, samples.len(), "{title}");
        for (found, key) in [
            (histogram.tick_hz, "tick_hz"),
            (histogram.precision_bits, "precision_bits"),
            (histogram.value_bits, "value_bits"),
            (histogram.overflow, "overflow"),
            (histogram.min, "min"),
            (histogram.max, "max"),
        ] {
            assert_eq!(found, number(&group, key), "{title}: {key}");
        }
        let of = |sample: &u32| bucket(histogram.precision_bits, histogram.value_bits, *sample);
        let expected: Vec<u32> = samples.iter().map(of).collect();
        let repeated = histogram.pairs.iter();
        let repeated =
            repeated.flat_map(|(index, count)| std::iter::repeat_n(*index, *count as usize));
        assert_eq!(repeated.collect::<Vec<_>>(), expected, "{title}");
    }
}

#[test]
fn what_the_page_refuses_is_refused_by_name() {
    let groups = groups("refused.");
    assert_eq!(groups.len(), 18);
    for (title, group) in groups {
        let error = CoreHistogram::read(&bytes(&group["hex"]))
            .expect_err(&title)
            .to_string();
        assert!(error.contains(&group["why"]), "{title}: {error}");
    }
}

#[test]
fn percentiles_are_at_most_one_bucket_too_large() {
    let (_, group) = groups("histogram.some").remove(0);
    let histogram = CoreHistogram::read(&bytes(&group["hex"])).expect("good");
    let ns = histogram.to_nanoseconds();
    assert_eq!(ns.len(), 8);
    // 5 ticks of 62.5 MHz are 80 ns.
    assert_eq!(ns.min(), 80);
    let median = ns.value_at_quantile(0.5);
    assert!((300 * 16..=303 * 16).contains(&median), "{median}");
    let largest = histogram.ns(histogram.max);
    assert_eq!(largest, 68_719_476_720);
    assert!(ns.equivalent(ns.max(), largest));
}

proptest! {
    #[test]
    fn value_lies_in_its_bucket(
        precision in 1_u32..=12,
        more in 1_u32..=20,
        value in any::<u32>(),
    ) {
        let values = precision + more;
        let value = if values < 32 { value & ((1 << values) - 1) } else { value };
        let index = bucket(precision, values, value);
        assert!(index < bucket_count(precision, values));
        assert!(highest_of(precision, index) >= value);
        assert!(index == 0 || highest_of(precision, index - 1) < value);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = CoreHistogram::read(&bytes);
    }

    /// Past the checksum, too.
    #[test]
    fn any_words_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 64..200), pairs in 0_u32..12) {
        bytes.truncate(64 + (bytes.len() - 64) / 8 * 8);
        bytes[..8].copy_from_slice(&[0x48, 0x59, 0x48, 0x47, 1, 0, 7, 32]);
        bytes[12..16].copy_from_slice(&pairs.to_le_bytes());
        bytes[32..60].fill(0);
        bytes[32] = b'a';
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..60]), &bytes[64..]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(histogram) = CoreHistogram::read(&bytes) {
            assert_eq!(histogram.to_nanoseconds().len(), u64::from(histogram.count));
        }
    }
}
