//! What carries flows over a link, for short and for long messages, and what was measured there.

use hythe_cluster::{CarriersStatus, LinkStatus, MeasuredStatus};
use hythe_command::units;
use hythe_terminal::escaped;

use super::round_trip;

/// Names and values, where flows are carried by packets.
pub(super) fn lines(link: &LinkStatus) -> Vec<(&'static str, String)> {
    let are_packets = link.transport == "packets";
    let Some(carriers) = link.carriers.as_ref().filter(|_| are_packets) else {
        return Vec::new();
    };
    let mut lines = vec![("carriers", choice(carriers))];
    if let Some(found) = &carriers.measured {
        lines.push(("measured", measured(found)));
    }
    if carriers.measurements > 0 {
        lines.push(("measuring", effort(carriers)));
    }
    lines
}

fn choice(carriers: &CarriersStatus) -> String {
    let (short, long) = (escaped(&carriers.short), escaped(&carriers.long));
    let why = match (carriers.is_forced, carriers.why.is_empty()) {
        (true, _) => "; as --carrier says".to_owned(),
        (false, true) => String::new(),
        (false, false) => format!("; not xdp: {}", escaped(&carriers.why)),
    };
    format!("{short} for short messages, {long} for long ones{why}")
}

fn measured(found: &MeasuredStatus) -> String {
    let of = |name: &str, round_trip_ns: Option<u64>, bytes_per_s: Option<u64>| {
        let speed = match bytes_per_s {
            None => "-".to_owned(),
            Some(bytes) => format!("{} MB/s", bytes / 1_000_000),
        };
        format!(
            "{name} {} there and back, {speed}",
            round_trip(round_trip_ns)
        )
    };
    let mut parts = vec![of("udp", found.udp_round_trip_ns, found.udp_bytes_per_s)];
    if found.xdp_round_trip_ns.or(found.xdp_bytes_per_s).is_some() {
        parts.push(of("xdp", found.xdp_round_trip_ns, found.xdp_bytes_per_s));
    }
    if let Some(percent) = found.others_percent {
        parts.push(format!(
            "other traffic {}.{:02} times as long beside that",
            percent / 100,
            percent % 100
        ));
    }
    format!(
        "{}; {} ago, because {}",
        parts.join("; "),
        units::milliseconds(found.age_ms),
        escaped(&found.because)
    )
}

fn effort(carriers: &CarriersStatus) -> String {
    let trouble = match carriers.trouble.is_empty() {
        true => String::new(),
        false => format!("; not at present: {}", escaped(&carriers.trouble)),
    };
    format!(
        "{} so far, {}, {}{trouble}",
        units::counted(carriers.measurements, "time"),
        units::bytes(carriers.measuring_bytes),
        units::milliseconds(carriers.measuring_us / 1_000),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_is_shown_with_its_figures_and_reasons() {
        let mut carriers = CarriersStatus {
            short: "xdp".to_owned(),
            long: "udp".to_owned(),
            why: "long ones have 0.60 of UDP's speed by xdp".to_owned(),
            measured: Some(MeasuredStatus {
                udp_round_trip_ns: Some(12_100),
                udp_bytes_per_s: Some(2_775_000_000),
                xdp_round_trip_ns: Some(8_000),
                xdp_bytes_per_s: None,
                others_percent: Some(104),
                because: "the link is new".to_owned(),
                age_ms: 12_000,
            }),
            measurements: 1,
            measuring_bytes: 791_760,
            measuring_us: 19_000,
            ..CarriersStatus::default()
        };
        let text = |carriers: &CarriersStatus| {
            let link = LinkStatus {
                transport: "packets".to_owned(),
                carriers: Some(carriers.clone()),
                ..LinkStatus::default()
            };
            let lines = lines(&link).into_iter();
            let lines = lines.map(|(name, value)| format!("{name}: {value}"));
            lines.collect::<Vec<String>>().join("\n")
        };
        assert_eq!(
            text(&carriers),
            "carriers: xdp for short messages, udp for long ones; not xdp: long ones have 0.60 of \
             UDP's speed by xdp\nmeasured: udp 12.1 us there and back, 2775 MB/s; xdp 8.0 us there \
             and back, -; other traffic 1.04 times as long beside that; 12.0 s ago, because the \
             link is new\nmeasuring: 1 time so far, 773.2 KiB, 19 ms"
        );
        carriers.is_forced = true;
        carriers.trouble = "it does not answer".to_owned();
        carriers.measured = None;
        let text = text(&carriers);
        assert!(text.contains("ones; as --carrier says\n"), "{text}");
        assert!(
            text.ends_with("not at present: it does not answer"),
            "{text}"
        );
        assert!(lines(&LinkStatus::default()).is_empty());
    }
}
