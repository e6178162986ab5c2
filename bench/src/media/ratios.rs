//! Cases by one another: the same packets to the same destinations, in the same round.

use serde::Serialize;

use super::calls::{self, CallSeries};
use super::case::{Mode, System};
use super::measured::Measured;
use super::plays::{self, PlaysSeries, PlaysSystem};
use super::series::Series;
use crate::statistics::paired_ratio;

/// The median over the rounds of the quotients of one round.
#[derive(Debug, Serialize)]
pub(super) struct Ratio {
    /// `CASE by CASE: cpu` or `elapsed`: how many times as much the first one takes.
    pub(super) name: String,
    /// Of a packet.
    pub(super) size_bytes: u16,
    pub(super) packets: u32,
    pub(super) destinations: u16,
    pub(super) value: f64,
}

/// All that can be made of these.
pub(super) fn of(measured: Measured<'_>) -> Vec<Ratio> {
    let mut ratios = of_sending(measured.series);
    let is_plain = |calls: &&CallSeries| calls.case.system == System::Sendto;
    let plain = measured.calls.iter().filter(is_plain);
    ratios.extend(plain.filter_map(|above| of_calls(above, measured.calls)));
    let others = measured.plays.iter();
    ratios.extend(others.filter_map(|above| of_plays(above, measured.plays)));
    ratios.retain(|ratio| ratio.value.is_finite());
    ratios
}

fn of_sending(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for below in series {
        let mut push = |above: &Series, what: &str, figures: fn(&Series) -> Vec<f64>| {
            ratios.push(Ratio {
                name: format!("{} by {}: {what}", above.case, below.case),
                size_bytes: below.case.packet_bytes,
                packets: below.case.packets,
                destinations: below.case.destinations,
                value: paired_ratio(&figures(above), &figures(below)),
            });
        };
        let others = || {
            let others = series.iter();
            others.filter(|other| other.case.compares_with(&below.case))
        };
        let is_ours = below.case.system == System::Hythe;
        for above in others() {
            let is_plain =
                (above.case.system, above.case.mode) == (System::Sendto, Mode::FirstSend);
            if is_plain && above.case != below.case && !below.case.system.is_peer() {
                push(above, "cpu", Series::cpu);
                if is_ours {
                    push(above, "elapsed", Series::elapsed);
                }
            }
            if above.case.system.is_peer() && is_ours {
                push(above, "cpu", Series::cpu);
            }
        }
        // What the product's duties cost, beside the same method written for this case alone.
        let is_floor = |other: &&Series| {
            let floor = match below.case.mode {
                Mode::Headers => System::Gso,
                Mode::Prepared | Mode::FirstSend => System::SendfileGso,
            };
            (other.case.system, other.case.mode) == (floor, below.case.mode)
        };
        if is_ours && let Some(floor) = others().find(is_floor) {
            ratios.push(Ratio {
                name: format!("{} by {}: cpu", below.case, floor.case),
                size_bytes: below.case.packet_bytes,
                packets: below.case.packets,
                destinations: below.case.destinations,
                value: paired_ratio(&below.cpu(), &floor.cpu()),
            });
        }
    }
    ratios
}

/// What another program takes by what the product takes, to as many destinations.
fn of_plays(above: &PlaysSeries, series: &[PlaysSeries]) -> Option<Ratio> {
    let destinations = above.case.destinations;
    let below = series.iter().find(|series| {
        let case = series.case;
        case.system == PlaysSystem::Hythe && case.destinations == destinations
    })?;
    (above.case != below.case).then(|| Ratio {
        name: format!("{} by {}: cpu", above.case, below.case),
        size_bytes: plays::PACKET_BYTES,
        packets: below.case.packets(),
        destinations,
        value: paired_ratio(&above.cpu_by_packet(), &below.cpu_by_packet()),
    })
}

/// What the plain loop takes by what the product takes, for the same calls.
fn of_calls(above: &CallSeries, series: &[CallSeries]) -> Option<Ratio> {
    let below = series.iter().find(|series| {
        let (case, priority) = (series.case, above.case.priority);
        case.system == System::Hythe && case.priority == priority
    })?;
    Some(Ratio {
        name: format!("{} by {}: cpu", above.case, below.case),
        size_bytes: calls::PACKET_BYTES,
        packets: 50 * u32::from(below.case.seconds),
        destinations: below.case.calls,
        value: paired_ratio(&above.cpu_by_packet(), &below.cpu_by_packet()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::PLAIN;
    use super::super::case::{Case, Content};
    use super::super::series::tests::round;
    use super::*;

    fn series(case: Case, elapsed_ns: f64, cpu_ns: f64) -> Series {
        let mut series = Series::new(case);
        // The machine was three times slower in the second round.
        for slower in [1.0, 3.0] {
            series.add(round(elapsed_ns * slower, cpu_ns * slower));
        }
        series
    }

    fn found(series: &[Series]) -> Vec<(String, f64)> {
        let ratios = of_sending(series).into_iter();
        ratios.map(|ratio| (ratio.name, ratio.value)).collect()
    }

    #[test]
    fn plain_way_by_ours_and_ours_by_what_it_is_made_of() {
        let case = |system| Case {
            system,
            mode: Mode::Prepared,
            ..PLAIN
        };
        let many = Case {
            destinations: 16,
            ..case(System::Hythe)
        };
        let measured = [
            series(PLAIN, 4e6, 2000.0),
            series(case(System::SendfileGso), 1e6, 80.0),
            series(case(System::Hythe), 1e6, 100.0),
            series(many, 1e6, 1.0),
        ];
        let expected = [
            ("sendto/first_send by sendfile-gso/prepared: cpu", 25.0),
            ("sendto/first_send by hythe/prepared: cpu", 20.0),
            ("sendto/first_send by hythe/prepared: elapsed", 4.0),
            ("hythe/prepared by sendfile-gso/prepared: cpu", 1.25),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found(&measured), expected);
    }

    #[test]
    fn peers_are_compared_with_ours_only() {
        let case = |system| Case {
            system,
            content: Content::TransportStream,
            ..PLAIN
        };
        let measured = [
            series(case(System::Sendto), 1e6, 2000.0),
            series(case(System::Ffmpeg), 1e6, 6000.0),
            series(case(System::Hythe), 1e6, 200.0),
        ];
        let names: Vec<String> = found(&measured).into_iter().map(|(name, _)| name).collect();
        let expected = [
            "sendto/first_send by hythe/first_send: cpu",
            "sendto/first_send by hythe/first_send: elapsed",
            "ffmpeg/first_send by hythe/first_send: cpu",
        ];
        assert_eq!(names, expected);
    }
}
