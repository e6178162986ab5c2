//! Sizes, counts and times as people write and read them.
//!
//! `K`, `M`, `G` are powers of 1024. Parsers are called by the command line's definitions and say
//! what they would have taken.

use std::time::Duration;

use hythe::{ClassPlan, HISTORY_MAX, Limits};
use hythe_terminal::escaped;

/// Bits a second: a whole number, or thousands, millions or billions of them, as networks count.
pub fn parse_bits(text: &str) -> Result<u64, String> {
    let refused = || {
        format!(
            "{} is not bits a second such as 4000000, 64k or 8M",
            escaped(text)
        )
    };
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    let bits = number.checked_mul(factor).filter(|bits| *bits > 0);
    bits.ok_or_else(refused)
}

/// `4096`, `64K`, `64KiB`, `1.5M` is not one.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("a size is a whole number of bytes, or of K, M or G: 64M".to_owned()),
    };
    let number: usize = number
        .parse()
        .map_err(|error| format!("{error}; a size looks like 64M"))?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "a size is at least 1 and fits the machine's memory".to_owned())
}

/// `65536x100`, `64Kx100`: payload times count.
pub fn parse_class(text: &str) -> Result<ClassPlan, String> {
    let parts = text.rsplit_once(['x', 'X']);
    let (payload, count) = parts.ok_or("a class is a payload size and a count: 64Kx100")?;
    let count = count.parse().ok().filter(|count| *count > 0);
    let count = count.ok_or("the count of a class is a whole number from 1 up: 64Kx100")?;
    Ok(ClassPlan {
        payload_bytes: parse_size(payload)?,
        count,
    })
}

/// The limit of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    table: Table,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Participants,
    Channels,
    Ports,
    Connections,
    QueueSegments,
    /// Ledger entries for the regions of cores, and for the wire.
    CoreSlots,
}

impl Limit {
    /// Puts it among the others. Every connection has a queue segment: more connections bring as
    /// many.
    pub fn apply(self, limits: &mut Limits) {
        match self.table {
            Table::Participants => limits.participants = self.count,
            Table::Channels => limits.channels = self.count,
            Table::Ports => limits.ports = self.count,
            Table::QueueSegments => limits.queue_segments = self.count,
            Table::CoreSlots => limits.slots = self.count,
            Table::Connections => {
                let deep = limits.queue_segments.saturating_sub(limits.connections);
                limits.connections = self.count;
                limits.queue_segments = self.count.saturating_add(deep);
            }
        }
    }
}

/// `participants=200`.
pub fn parse_limit(text: &str) -> Result<Limit, String> {
    let (name, count) = text
        .split_once('=')
        .ok_or("a limit is a name and a count: participants=200")?;
    let table = match name {
        "participants" => Table::Participants,
        "channels" => Table::Channels,
        "ports" => Table::Ports,
        "connections" => Table::Connections,
        "queue-segments" => Table::QueueSegments,
        "core-slots" => Table::CoreSlots,
        _ => {
            return Err(
                "the limits are participants, channels, ports, connections, queue-segments and \
                 core-slots"
                    .to_owned(),
            );
        }
    };
    let count = count.parse().ok().filter(|count| *count > 0);
    let count = count.ok_or("the count of a limit is a whole number from 1 up")?;
    Ok(Limit { table, count })
}

/// `600`, `0660`.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o666 == 0);
    let mode = mode.filter(|mode| mode & 0o600 == 0o600);
    mode.ok_or_else(|| {
        format!(
            "{text} is not a mode of a pool: give octal permissions with read and write for the \
             owner and no execute bit, such as 600, 640 or 660"
        )
    })
}

/// `10`.
pub fn parse_history(text: &str) -> Result<u32, String> {
    let history = text.parse().ok().filter(|history| *history <= HISTORY_MAX);
    history.ok_or_else(|| format!("a history is a number of messages from 0 to {HISTORY_MAX}"))
}

/// `video`, `44`.
pub fn parse_group(text: &str) -> Result<u32, String> {
    hythe::group_id(text).ok_or_else(|| {
        "there is no such group in /etc/group; groups known elsewhere are given by number"
            .to_owned()
    })
}

/// `0.5`, `10`.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds: &f64| *seconds > 0.0 && *seconds <= 1e9);
    let seconds = seconds.ok_or("a time is a number of seconds above 0, such as 0.5 or 10")?;
    Ok(Duration::from_secs_f64(seconds).max(Duration::from_millis(1)))
}

/// `25`, `0.2`.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| *rate >= 1e-3 && *rate <= 1e9);
    rate.ok_or_else(|| "a rate is a number of messages per second, such as 25 or 0.2".to_owned())
}

/// `2`, `0.5`.
pub fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse()
        .ok()
        .filter(|factor: &f64| *factor >= 1e-3 && *factor <= 1e6);
    factor.ok_or_else(|| "a speed is a factor, such as 2 or 0.5".to_owned())
}

/// `5 B`, `64 KiB`, `1.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    if bytes.is_multiple_of(1 << shift) {
        return format!("{} {unit}", bytes >> shift);
    }
    format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64)
}

/// `320 ms`, `2.5 s`, `3 min 5 s`, `2 h 10 min`.
pub fn milliseconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// `1 message`, `2 messages`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Two digits to a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_refused() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("64KiB"), Ok(64 << 10));
        for wrong in [
            "",
            "M",
            "-1",
            "1.5M",
            "0",
            "64X",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn history_past_the_deepest_queue_is_refused_with_the_largest() {
        assert_eq!(parse_history("32768"), Ok(32768));
        let refused = parse_history("99999999").expect_err("too many");
        assert!(refused.contains("32768"), "{refused}");
    }

    #[test]
    fn refused_mode_says_what_a_mode_is() {
        let refused = parse_mode("777").expect_err("execute bits");
        assert!(refused.contains("777 is not a mode"), "{refused}");
        assert!(refused.contains("no execute bit"), "{refused}");
    }

    #[test]
    fn classes_are_read_and_refused() {
        assert_eq!(
            parse_class("65536x100"),
            Ok(ClassPlan {
                payload_bytes: 65536,
                count: 100
            })
        );
        assert_eq!(
            parse_class("64Kx2"),
            Ok(ClassPlan {
                payload_bytes: 65536,
                count: 2
            })
        );
        for wrong in ["65536", "65536x", "x100", "65536x0", "0x5", "1x-1"] {
            assert!(parse_class(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_have_a_name_and_a_count() {
        let mut limits = hythe::Geometry::default_limits();
        let deep = limits.queue_segments - limits.connections;
        for text in ["participants=200", "connections=5000"] {
            parse_limit(text).expect("a limit").apply(&mut limits);
        }
        assert_eq!((limits.participants, limits.connections), (200, 5000));
        let core_slots = parse_limit("core-slots=6400").expect("a limit");
        core_slots.apply(&mut limits);
        assert_eq!(limits.slots, 6400);
        assert_eq!(limits.queue_segments, 5000 + deep);
        for wrong in [
            "participants",
            "participants=",
            "slots=5",
            "ports=0",
            "ports=-1",
        ] {
            assert!(parse_limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modes_leave_the_owner_in_and_execution_out() {
        assert_eq!(parse_mode("660"), Ok(0o660));
        assert_eq!(parse_mode("0600"), Ok(0o600));
        for wrong in ["777", "060", "", "9", "10600"] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_are_positive_and_finite() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_rate("25"), Ok(25.0));
        assert_eq!(parse_factor("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "NaN", "", "1s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
            assert!(parse_rate(wrong).is_err(), "{wrong}");
            assert!(parse_factor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(bytes(5), "5 B");
        assert_eq!(bytes(65536), "64 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(milliseconds(320), "320 ms");
        assert_eq!(milliseconds(185_000), "3 min 5 s");
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "message"), "0 messages");
    }
}
