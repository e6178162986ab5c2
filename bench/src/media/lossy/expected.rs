//! What a code should leave, and how far chance may take a run from it.
//!
//! The share is the library's (`loss::fec::predict::residual`). How many packets of a run stay lost
//! varies with how losses cluster within a matrix, for which there is no short formula: matrices
//! are played here, of the same chances, and their distribution is added up as often as the run has
//! matrices. Where events are rare, five standard errors would say less.

use hythe_rtp::loss::fec::predict::{Chance, Losses, residual};
use hythe_rtp::loss::fec::{Protection, Shape};

/// Matrices that are played: more than a hundred times those of a usual run.
const MATRICES: u32 = 100_000;
const SEED: u64 = 1;
/// Chance alone takes a run beyond either end of the range with less than this probability.
const TAIL: f64 = 5e-7;
/// Probabilities below this are none: all of them together are far less than [`TAIL`].
const NEGLIGIBLE: f64 = 1e-15;

/// Of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The share of packets that stay lost, by the library's computation.
    pub(super) residual: f64,
    /// Fewest and most packets that stay lost but once in a million runs.
    pub(super) range: [u32; 2],
}

impl Expected {
    /// After parity, of `packets` packets of which each is lost with probability `loss`.
    pub(super) fn after_parity(
        shape: Shape,
        protection: Protection,
        loss: f64,
        packets: u32,
    ) -> Self {
        let each = played(shape, protection, loss);
        let matrices = packets.div_ceil(shape.packets() as u32);
        Self {
            residual: residual(shape, protection, loss, MATRICES, SEED),
            range: range(&repeated(&each, matrices)),
        }
    }

    /// When a packet that is lost is asked for and sent again so often, at most: a try fails if the
    /// request or the answer is lost.
    pub(super) fn after_requests(tries: u8, loss: f64, packets: u32) -> Self {
        let fails = 1.0 - (1.0 - loss).powi(2);
        let residual = loss * fails.powi(tries.into());
        Self {
            residual,
            range: range(&repeated(&[1.0 - residual, residual], packets)),
        }
    }

    /// Without any repair.
    pub(super) fn of_nothing(loss: f64, packets: u32) -> Self {
        Self {
            residual: loss,
            range: range(&repeated(&[1.0 - loss, loss], packets)),
        }
    }
}

/// The probability of each number of packets of a matrix that stay lost.
fn played(shape: Shape, protection: Protection, loss: f64) -> Vec<f64> {
    let mut chance = Chance::new(SEED + 1);
    let mut counts = vec![0.0; shape.packets() + 1];
    for _ in 0..MATRICES {
        counts[play(shape, protection, loss, &mut chance)] += 1.0;
    }
    counts
        .iter()
        .map(|count| count / f64::from(MATRICES))
        .collect()
}

fn play(shape: Shape, protection: Protection, loss: f64, chance: &mut Chance) -> usize {
    let mut losses = Losses::none(shape, protection);
    for place in (0..shape.packets()).filter(|_| chance.happens(loss)) {
        losses.lose(place);
    }
    for column in (0..shape.columns()).filter(|_| chance.happens(loss)) {
        losses.lose_column(column);
    }
    for row in (0..shape.rows()).filter(|_| chance.happens(loss)) {
        losses.lose_row(row);
    }
    losses.repair().count()
}

/// The distribution of the sum of so many independent numbers, each distributed as `each`. Entry 0
/// of the result stands for the number beside it: what is negligible in front of it is left out.
fn repeated(each: &[f64], times: u32) -> (usize, Vec<f64>) {
    let (mut first, mut sum) = (0, vec![1.0]);
    for _ in 0..times {
        let mut next = vec![0.0; sum.len() + each.len() - 1];
        for (place, probability) in sum.iter().enumerate() {
            for (more, chance) in each.iter().enumerate() {
                next[place + more] += probability * chance;
            }
        }
        let is_some = |probability: &f64| *probability > NEGLIGIBLE;
        let front = next.iter().position(is_some).unwrap_or(0);
        let end = next.iter().rposition(is_some).map_or(0, |last| last + 1);
        first += front;
        sum = next[front..end].to_vec();
    }
    (first, sum)
}

/// Where all but [`TAIL`] at either end lies.
fn range((first, sum): &(usize, Vec<f64>)) -> [u32; 2] {
    let within = |tail: f64, probabilities: &mut dyn Iterator<Item = &f64>| {
        let mut left = 0.0;
        let beyond = probabilities.take_while(|probability| {
            left += **probability;
            left < tail
        });
        beyond.count()
    };
    let low = within(TAIL, &mut sum.iter());
    let high = sum.len() - 1 - within(TAIL, &mut sum.iter().rev()).min(sum.len() - 1);
    [(first + low) as u32, (first + high) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance((first, sum): &(usize, Vec<f64>)) -> (f64, f64) {
        let each = || {
            sum.iter()
                .enumerate()
                .map(|(place, p)| ((first + place) as f64, p))
        };
        let mean: f64 = each().map(|(value, p)| value * p).sum();
        let variance = each().map(|(value, p)| (value - mean).powi(2) * p).sum();
        (mean, variance)
    }

    #[test]
    fn sums_of_losses_are_binomial() {
        let all = repeated(&[0.95, 0.05], 20_000);
        let (mean, variance) = mean_and_variance(&all);
        assert!(
            (mean - 1000.0).abs() < 1e-3 && (variance - 950.0).abs() < 1e-2,
            "{mean} {variance}"
        );
        // About 4.9 standard deviations of 30.8 to either side.
        let [low, high] = Expected::of_nothing(0.05, 20_000).range;
        assert!(
            (845..855).contains(&low) && (1150..1160).contains(&high),
            "{low} {high}"
        );
        assert_eq!(Expected::of_nothing(0.0, 100).range, [0, 0]);
    }

    #[test]
    fn columns_leave_what_the_formula_says() {
        let shape = Shape::new(5, 5).expect("a shape");
        let p: f64 = 0.05;
        let expected = Expected::after_parity(shape, Protection::Columns, p, 20_000);
        let exact = p * (1.0 - (1.0 - p).powi(5));
        assert!((expected.residual - exact).abs() < 1e-12);
        // Of a column: n losses among five stay, unless it is one and the parity came.
        let stay = |n: i32| {
            let ways = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0][n as usize];
            let all = ways * p.powi(n) * (1.0 - p).powi(5 - n);
            if n == 1 { p * all } else { all }
        };
        let mean: f64 = (1..=5).map(|n| f64::from(n) * stay(n)).sum();
        let squares: f64 = (1..=5).map(|n| f64::from(n * n) * stay(n)).sum();
        let (found, spread) = mean_and_variance(&(0, played(shape, Protection::Columns, p)));
        assert!((found / (5.0 * mean) - 1.0).abs() < 0.03, "{found} {mean}");
        let variance = 5.0 * (squares - mean * mean);
        assert!(
            (spread / variance - 1.0).abs() < 0.05,
            "{spread} {variance}"
        );
        let [low, high] = expected.range;
        let middle = exact * 20_000.0;
        assert!(
            f64::from(low) > middle * 0.5 && f64::from(high) < middle * 1.6,
            "{expected:?}"
        );
    }

    #[test]
    fn four_tries_fail_for_one_packet_in_two_hundred_thousand() {
        let expected = Expected::after_requests(4, 0.05, 20_000);
        assert!((expected.residual - 4.5e-6).abs() < 0.1e-6, "{expected:?}");
        assert_eq!(expected.range, [0, 4]);
    }

    #[test]
    fn rare_clusters_have_capacity_and_both_directions_leave_less() {
        let shape = Shape::new(5, 5).expect("a shape");
        let both = Expected::after_parity(shape, Protection::Both, 0.05, 500);
        // Hardly one cluster is likely in so short a run, but one or two are possible.
        assert!(
            both.range[0] == 0 && (4..25).contains(&both.range[1]),
            "{both:?}"
        );
        assert!(both.residual < 0.05 * (1.0 - 0.95_f64.powi(5)) / 10.0);
    }
}
